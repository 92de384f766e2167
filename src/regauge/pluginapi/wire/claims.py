"""Between the port's values and the messages of dra/v1 and dra/v1beta1. The two differ in `share_id` only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regauge.pluginapi.messages import ClaimRef, PreparedDevice, PrepareResult


def write_request(target: Any, arguments: tuple[Any, ...]) -> None:
    for claim in arguments[0]:
        target.claims.add(namespace=claim.namespace, uid=claim.uid, name=claim.name)


def read_request(source: Any) -> tuple[tuple[ClaimRef, ...]]:
    return (tuple(ClaimRef(claim.namespace, claim.uid, claim.name) for claim in source.claims),)


def write_prepared_v1beta1(target: Any, answer: Mapping[str, PrepareResult]) -> None:
    for uid, result in answer.items():
        written = target.claims[uid]
        written.error = result.error
        for device in result.devices:
            _write_device(written.devices, device)


def write_prepared_v1(target: Any, answer: Mapping[str, PrepareResult]) -> None:
    for uid, result in answer.items():
        written = target.claims[uid]
        written.error = result.error
        for device in result.devices:
            added = _write_device(written.devices, device)
            if device.share_id is not None:
                added.share_id = device.share_id


def _write_device(devices: Any, device: PreparedDevice) -> Any:
    return devices.add(
        request_names=device.request_names,
        pool_name=device.pool_name,
        device_name=device.device_name,
        cdi_device_ids=device.cdi_device_ids,
    )


def read_prepared_v1beta1(source: Any) -> dict[str, PrepareResult]:
    return {
        uid: PrepareResult(tuple(_read_device(device) for device in result.devices), result.error)
        for uid, result in source.claims.items()
    }


def read_prepared_v1(source: Any) -> dict[str, PrepareResult]:
    return {
        uid: PrepareResult(
            tuple(
                _read_device(device, device.share_id if device.HasField("share_id") else None)
                for device in result.devices
            ),
            result.error,
        )
        for uid, result in source.claims.items()
    }


def _read_device(device: Any, share_id: str | None = None) -> PreparedDevice:
    return PreparedDevice(
        device.pool_name,
        device.device_name,
        tuple(device.request_names),
        tuple(device.cdi_device_ids),
        share_id,
    )


def write_unprepared(target: Any, answer: Mapping[str, str]) -> None:
    for uid, error in answer.items():
        target.claims[uid].error = error


def read_unprepared(source: Any) -> dict[str, str]:
    return {uid: result.error for uid, result in source.claims.items()}
