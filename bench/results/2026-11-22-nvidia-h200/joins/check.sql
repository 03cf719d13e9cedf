CREATE TABLE l AS SELECT CAST(value * 7 % 97 AS INT) AS k, CAST(value % 1000 AS INT) AS v, CASE WHEN value % 11 = 0 THEN NULL ELSE 'n' || (value % 13) END AS t FROM generate_series(1, 3000);
CREATE TABLE r AS SELECT CAST(value * 5 % 113 AS INT) AS k, CAST(value % 900 AS INT) AS v, CASE WHEN value % 7 = 0 THEN NULL ELSE 'n' || (value % 17) END AS t FROM generate_series(1, 2000);
SELECT count(*), sum(l.v + r.v) FROM l JOIN r ON l.k = r.k;
SELECT r.t, count(*), sum(l.v) FROM l LEFT JOIN r ON l.k = r.k AND r.v > l.v GROUP BY r.t ORDER BY r.t;
SELECT count(*), count(l.v), count(r.v) FROM l FULL JOIN r ON l.t = r.t AND l.v < r.v;
SELECT count(*), sum(v) FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k = l.k AND r.v > l.v + 500);
SELECT count(*) FROM (SELECT k, t FROM l INTERSECT SELECT k, t FROM r) AS i;
SELECT k, v, t FROM l WHERE v > 100 ORDER BY t NULLS FIRST, v DESC, k;
