"""What containers are made of is a parameter of one backend."""

import pytest

from lab.backends import registry
from lab.backends.containerlab_backend import ContainerlabBackend
from lab.errors import UsageError


def test_containers_are_made_of_an_image() -> None:
    assert isinstance(registry.of_image("containerlab", "quay.io/frrouting/frr:10.5.1"), ContainerlabBackend)


@pytest.mark.parametrize(
    ("backend", "image", "said"),
    [
        ("netns", "frr:1", "nodes of backend netns are of no image"),
        ("podman", "frr:1", "no backend podman"),
        ("containerlab", "not an image", "'not an image' is not an image"),
    ],
)
def test_what_has_no_image_is_refused(backend: str, image: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        registry.of_image(backend, image)
