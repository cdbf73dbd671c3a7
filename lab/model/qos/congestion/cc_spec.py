"""The model of the key ``nic.cc`` of a QoS profile: every register, its meaning, unit and bounds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

from pydantic import BaseModel, Field, PlainValidator, WithJsonSchema

from lab.model.qos.congestion.cc_presets import CC_PRESETS
from lab.model.qos.congestion.cc_profile import LINK, OFF
from lab.model.qos.congestion.cc_registers import ALPHA_RANGE, CcAlgorithm, CnpModeration
from lab.model.qos.port import CLASSES, DSCPS, MAX_SIZE
from lab.model.values import yamltext
from lab.model.values.fields import SECTION, written
from lab.units import format_rate, format_size, format_time, parse_rate, parse_size, parse_time

if TYPE_CHECKING:
    from collections.abc import Callable

_RATES: Final = (0, 800 * 10**9)
_REAL_RATES: Final = (10**6, 800 * 10**9)
_TIMES: Final = (1e-6, 10.0)


def _united(
    parse: Callable[[str], Any], show: Callable[[float], str], bounds: tuple[Any, Any], hint: str, example: str
) -> Callable[[Any], Any]:
    """Return a validator for a value that must have its unit: registers of hardware are numbers of us, Mb/s or 64 B.

    ``hint`` is the unit in which mlxconfig has the register.
    """

    def check(value: Any) -> Any:
        text = written(value, "value with a unit", example).strip()
        if re.fullmatch(r"[0-9.]*[1-9][0-9.]*", text, re.ASCII):
            raise ValueError(f"{text} has no unit; write it like {example}: mlxconfig counts in {hint}")
        number = parse(text)
        low, high = bounds
        if not low <= number <= high:
            raise ValueError(f"{show(number)} is out of range; choose {show(low)} to {show(high)}")
        return number

    return check


def _check_algorithm(value: Any) -> CcAlgorithm | str:
    if value == OFF:
        return OFF
    if isinstance(value, str) and value in [each.value for each in CcAlgorithm]:
        return CcAlgorithm(value)
    known = ", ".join(CcAlgorithm)
    raise ValueError(f"{yamltext.show(value)} is not a known algorithm; choose {known} or {OFF}")


def _check_preset(value: Any) -> str:
    if isinstance(value, str) and value in CC_PRESETS:
        return value
    raise ValueError(f"{yamltext.show(value)} is not a preset with registers; choose {', '.join(CC_PRESETS)}")


def _check_real_rate(value: Any) -> int | str:
    return LINK if value == LINK else _number_of_rate(value)


_number_of_rate = _united(parse_rate, format_rate, _REAL_RATES, "Mb/s", "25Gbit, or link")


def _register(
    parse: Callable[[str], Any], show: Callable[[float], str], bounds: tuple[Any, Any], hint: str, example: str
) -> tuple[Any, ...]:
    return PlainValidator(_united(parse, show, bounds, hint, example)), WithJsonSchema(
        {"type": "string", "examples": [example]}
    )


RateRegister: TypeAlias = Annotated[int, *_register(parse_rate, format_rate, _RATES, "Mb/s", "5Mbit")]
TimeRegister: TypeAlias = Annotated[float, *_register(parse_time, format_time, _TIMES, "us", "300us")]
OptionalTimeRegister: TypeAlias = Annotated[float, *_register(parse_time, format_time, (0.0, _TIMES[1]), "us", "4us")]
BytesRegister: TypeAlias = Annotated[int, *_register(parse_size, format_size, (0, MAX_SIZE), "64 bytes", "10MB")]
RealRate: TypeAlias = Annotated[
    int | str,
    PlainValidator(_check_real_rate),
    WithJsonSchema({"type": "string", "examples": ["25Gbit", LINK]}),
]
AlgorithmName: TypeAlias = Annotated[
    CcAlgorithm | str,
    PlainValidator(_check_algorithm),
    WithJsonSchema({"enum": [*map(str, CcAlgorithm), OFF]}),
]
UnitFraction: TypeAlias = Annotated[float, Field(gt=0, le=1)]
CcPresetName: TypeAlias = Annotated[str, PlainValidator(_check_preset), WithJsonSchema({"enum": [*CC_PRESETS]})]


class CcSpec(BaseModel):
    """Congestion control of hosts' NICs. Any key turns it on, unless algorithm is off.

    Registers are those of a real NIC of real_rate. With s = real_rate / the link's rate, times are multiplied by s
    and rates divided by s. Sizes in bytes stay. Other settings stay unchanged.
    """

    model_config = SECTION

    algorithm: AlgorithmName | None = None
    """dcqcn: by CNPs; timely: by the RTT; off: the NIC neither sends CNPs nor slows a QP down."""
    preset: CcPresetName | None = None
    """Start from these registers (`rocelab qos presets`). Otherwise from those of the port, connectx or timely."""
    real_rate: RealRate | None = None
    """Rate of the NIC that the registers are meant for, like 25Gbit; link: of this link, so nothing is scaled."""
    np: bool | None = None
    """Notification point: whether the NIC answers packets with CE marks with CNPs."""
    rp: bool | None = None
    """Reaction point: whether the NIC slows QPs down."""
    moderation: Annotated[CnpModeration, Field(strict=False)] | None = None
    """Scope of min_time_between_cnps: qp, destination or port."""
    rpg_time_reset: TimeRegister | None = None
    """Time between two increases of the rate without a CNP, like 300us."""
    rpg_byte_reset: BytesRegister | None = None
    """Bytes sent between two increases, like 10MB; 0 turns the byte counter off. mlxconfig counts in 64 bytes."""
    rpg_threshold: Annotated[int, Field(ge=1, le=31)] | None = None
    """Increases in fast recovery before additive increase; after as many of timer and bytes, hyper increase."""
    rpg_ai_rate: RateRegister | None = None
    """Step of the target rate in additive increase, like 5Mbit."""
    rpg_hai_rate: RateRegister | None = None
    """Step of the target rate in hyper increase, like 50Mbit."""
    rpg_gd: Annotated[int, Field(ge=0, le=15)] | None = None
    """A cut is rate x alpha / 2^gd, with alpha up to 1023: 11 is alpha / 2."""
    rpg_min_dec_fac: Annotated[int, Field(ge=1, le=100)] | None = None
    """Percent of the rate that one cut leaves at least."""
    rpg_min_rate: RateRegister | None = None
    """No cut goes below this rate. At the lab's rate it is at least one packet in a quarter of the QP timeout."""
    dce_tcp_g: Annotated[int, Field(ge=0, le=ALPHA_RANGE - 1)] | None = None
    """Part of alpha that an update retains, of 1024: 1019 is a gain of 5/1024."""
    dce_tcp_rtt: TimeRegister | None = None
    """Time between two updates of alpha, like 1us."""
    rate_reduce_monitor_period: OptionalTimeRegister | None = None
    """At most one cut in this time, like 4us; 0 cuts at each CNP."""
    initial_alpha_value: Annotated[int, Field(ge=0, le=ALPHA_RANGE - 1)] | None = None
    """alpha at the first CNP of a QP, of 1024."""
    rate_to_set_on_first_cnp: RateRegister | None = None
    """Rate and target at the first CNP of a QP, like 10Gbit; 0 leaves them."""
    clamp_tgt_rate: bool | None = None
    """Whether every cut sets the target to the rate before it; otherwise only after an increase by bytes."""
    clamp_tgt_rate_after_time_inc: bool | None = None
    """Whether a cut after an increase by the timer does so, too."""
    min_time_between_cnps: OptionalTimeRegister | None = None
    """Minimum time between two CNPs of a receiver, like 4us; 0: one for each marked packet."""
    cnp_dscp: Annotated[int, Field(ge=0, le=DSCPS - 1)] | None = None
    """DSCP of CNPs."""
    cnp_802p_prio: Annotated[int, Field(ge=0, le=CLASSES - 1)] | None = None
    """PCP of CNPs that carry a VLAN tag."""
    timely_t_low: TimeRegister | None = None
    """The rate grows after an RTT below this, like 50us."""
    timely_t_high: TimeRegister | None = None
    """The rate shrinks after an RTT above this, like 500us."""
    timely_min_rtt: TimeRegister | None = None
    """Unit of the RTT's gradient, like 20us: the RTT of an empty network."""
    timely_alpha: UnitFraction | None = None
    """Weight of a new difference of RTTs in its moving average, up to 1."""
    timely_beta: UnitFraction | None = None
    """Factor of a decrease of the rate, up to 1."""
    timely_add_step: RateRegister | None = None
    """Step of the rate in an increase, like 10Mbit."""
    timely_hai_threshold: Annotated[int, Field(ge=1, le=31)] | None = None
    """RTTs in a row without a positive gradient from which on steps are timely_hai_factor times as large."""
    timely_hai_factor: Annotated[int, Field(ge=1, le=100)] | None = None
    """Factor of the steps after timely_hai_threshold RTTs."""
    timely_initial_rate: RateRegister | None = None
    """Rate of a QP at its first acknowledgement, like 5Gbit; 0: the rate of the link."""
