"""Stories of a fabric that breaks: driven, recorded, judged.

``api`` is all that a scenario needs; ``library`` finds them, ``stage`` is what they drive, ``runner`` plays one on a
fabric and records it, ``judge`` looks at the recording, now or any time later.
"""
