"""The built driver, which GALATEA_ADBC_DRIVER names, and connections to it."""

import os

import pytest
from adbc_driver_manager import dbapi


@pytest.fixture
def driver():
    return os.environ["GALATEA_ADBC_DRIVER"]


@pytest.fixture
def connect(driver):
    """Opens connections, and closes them at the end of the test."""
    opened = []

    def connect(uri="", **options):
        settings = {"galatea.device": "cpu", "uri": uri} | options
        opened.append(dbapi.connect(driver=driver, db_kwargs=settings, autocommit=True))
        return opened[-1]

    yield connect
    for connection in opened:
        connection.close()


@pytest.fixture
def connection(connect):
    return connect()
