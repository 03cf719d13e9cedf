"""Ingests a table with the ADBC driver, queries it, and reads the result in batches.

pip install adbc-driver-manager pyarrow
python examples/adbc.py [DRIVER [FOLDER]]

DRIVER is the name of a manifest or the path of libadbc_driver_galatea.so (default: galatea), FOLDER the folder of a database
(default: in memory).
"""

import sys

import pyarrow
from adbc_driver_manager import dbapi

driver, folder = (sys.argv[1:] + ["galatea", ""][len(sys.argv) - 1 :])[:2]
numbers = pyarrow.table({"n": range(1_000_000), "shop": [number % 3 for number in range(1_000_000)]})

with dbapi.connect(driver=driver, db_kwargs={"uri": folder}, autocommit=True) as connection:
    print(connection.adbc_get_info()["vendor_name"], connection.adbc_get_info()["vendor_version"])
    with connection.cursor() as cursor:
        print(cursor.adbc_ingest("sales", numbers, mode="replace"), "rows written")

        cursor.execute("SELECT shop, count(*) AS sales, sum(n) AS total FROM sales WHERE n >= ? GROUP BY shop ORDER BY shop", (500_000,))
        print(cursor.fetch_arrow_table().to_pydict())

        # Batches arrive while the query runs.
        cursor.execute("SELECT n FROM sales WHERE n % 7 = 0")
        print(sum(batch.num_rows for batch in cursor.fetch_record_batch()), "multiples of 7")

        try:
            cursor.execute("SELECT totl FROM sales")
        except dbapi.ProgrammingError as error:
            print(error.sqlstate, error)
