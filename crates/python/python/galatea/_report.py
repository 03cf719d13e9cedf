"""Where a query ran, and the devices of this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import _galatea


@dataclass(frozen=True)
class Report:
    """The report of a query: its device, and the reasons why parts of it ran on the CPU."""

    device: str
    """`"GPU"`, `"CPU"`, `"GPU and CPU"` or `"emulated GPU"`."""
    reasons: tuple[str, ...]
    """Why all or parts of the query ran on the CPU; empty if none did."""
    placed: int
    """Number of subtrees of the plan that were placed on the device."""
    fell_back: int
    """Number of placed subtrees that ran on the CPU in the end."""
    plan_reused: bool
    """Whether the query reused the plan of an earlier one."""
    device_bytes: int
    """Bytes that kernels read from device memory."""
    link_bytes: int
    """Bytes transferred between host and device."""
    seconds: dict[str, float]
    """The time of each phase: `planning`, `compile`, `load`, `transfer`, `kernel`, `total`. Phases overlap."""

    def __str__(self) -> str:
        text = f"Ran on the {self.device}"
        if self.reasons:
            text += f" ({'; '.join(self.reasons)})"
        return text + "."


def report(values: dict[str, Any] | None) -> Report | None:
    """The report of a session."""
    if values is None:
        return None
    return Report(**{**values, "reasons": tuple(values["reasons"])})


@dataclass(frozen=True)
class Device:
    """A GPU."""

    name: str
    compute_capability: str
    memory: int
    """Device memory in bytes."""
    multiprocessors: int


@dataclass(frozen=True)
class DeviceInfo:
    """The devices of this machine."""

    available: bool
    """Whether queries can run on a GPU."""
    devices: tuple[Device, ...]
    driver: str | None
    """The version of the CUDA driver."""
    nvrtc: str | None
    """The version of NVRTC, which compiles kernels."""
    missing: dict[str, str] | None
    """The missing `part`, the `reason` and the `remedy`, if no GPU can be used."""

    def __str__(self) -> str:
        if self.missing is None:
            names = ", ".join(device.name for device in self.devices)
            return f"Queries run on {names} where it is faster, on the CPU elsewhere."
        part, remedy = self.missing["part"], self.missing["remedy"]
        return f"Queries run on the CPU: no {part}.\nhint: {remedy}"


def device_info() -> DeviceInfo:
    """The GPUs of this machine; without one, the missing part and its remedy."""
    info = _galatea.device_info()
    devices = tuple(Device(**device) for device in info.pop("devices"))
    return DeviceInfo(devices=devices, **info)
