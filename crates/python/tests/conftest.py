"""Fixtures: connections on the CPU and on the emulated device."""

import os

import pytest

import galatea


@pytest.fixture
def con():
    """A connection without a device."""
    with galatea.connect(device="cpu") as connection:
        yield connection


@pytest.fixture(scope="session")
def emulated():
    """A connection on the emulated device. scripts/python-tests requires it: the gate builds it."""
    try:
        connection = galatea.connect(device="emulated", fallback="allow")
    except galatea.Error as error:
        if os.environ.get("GALATEA_REQUIRE_EMULATOR") == "1":
            raise
        pytest.skip(f"no emulated device: {error}")
    return connection
