SET galatea.device = 'cpu';
CREATE TABLE t AS SELECT value AS v, (value * 7919) % 100003 AS k, concat('https://example.org/', lpad(CAST(value % 1000 AS VARCHAR), 3, '0'), '/', md5(CAST(value AS VARCHAR))) AS address FROM generate_series(1, 20000000);
SET galatea.device = 'gpu';
EXPLAIN ANALYZE SELECT address FROM t ORDER BY v DESC;
EXPLAIN ANALYZE SELECT address FROM t ORDER BY v DESC;
EXPLAIN ANALYZE SELECT address FROM t ORDER BY v DESC;
EXPLAIN ANALYZE SELECT v, k FROM t ORDER BY v DESC;
EXPLAIN ANALYZE SELECT v, k FROM t ORDER BY v DESC;
EXPLAIN ANALYZE SELECT address FROM t ORDER BY address;
