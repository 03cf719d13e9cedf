-- g1: sum by few strings.
SELECT id1, sum(v1) AS v1 FROM groups GROUP BY id1;

-- g2: sum by two columns of few strings.
SELECT id1, id2, sum(v1) AS v1 FROM groups GROUP BY id1, id2;

-- g3: sum and mean by many strings.
SELECT count(*), sum(v1), sum(v3) FROM (SELECT id3, sum(v1) AS v1, avg(v3) AS v3 FROM groups GROUP BY id3) AS answer;

-- g4: means by few integers.
SELECT id4, avg(v1) AS v1, avg(v2) AS v2, avg(v3) AS v3 FROM groups GROUP BY id4;

-- g5: sums by many integers.
SELECT count(*), sum(v1), sum(v2), sum(v3)
FROM (SELECT id6, sum(v1) AS v1, sum(v2) AS v2, sum(v3) AS v3 FROM groups GROUP BY id6) AS answer;

-- g6: median and standard deviation by two columns of few integers.
SELECT id4, id5, median(v3) AS median_v3, stddev(v3) AS sd_v3 FROM groups GROUP BY id4, id5;

-- g7: range of two columns by many strings.
SELECT count(*), sum(range_v1_v2)
FROM (SELECT id3, max(v1) - min(v2) AS range_v1_v2 FROM groups GROUP BY id3) AS answer;

-- g8: largest two of each of many groups.
SELECT count(*), sum(v3)
FROM (
    SELECT id6, v3 FROM (
        SELECT id6, v3, row_number() OVER (PARTITION BY id6 ORDER BY v3 DESC) AS place FROM groups WHERE v3 IS NOT NULL
    ) AS placed
    WHERE place <= 2
) AS answer;

-- g9: correlation by two columns.
SELECT id2, id4, power(corr(v1, v2), 2) AS r2 FROM groups GROUP BY id2, id4;

-- g10: sum and count by all columns of keys.
SELECT count(*), sum(v3), sum(count)
FROM (
    SELECT id1, id2, id3, id4, id5, id6, sum(v3) AS v3, count(*) AS count
    FROM groups GROUP BY id1, id2, id3, id4, id5, id6
) AS answer;

-- j1: inner join with a small table by an integer.
SELECT count(*), sum(x.v1), sum(small.v2) FROM x JOIN small ON x.id1 = small.id1;

-- j2: inner join with a medium table by an integer.
SELECT count(*), sum(x.v1), sum(medium.v2) FROM x JOIN medium ON x.id2 = medium.id2;

-- j3: left join with a medium table by an integer.
SELECT count(*), sum(x.v1), sum(medium.v2) FROM x LEFT JOIN medium ON x.id2 = medium.id2;

-- j4: inner join with a medium table by a string.
SELECT count(*), sum(x.v1), sum(medium.v2) FROM x JOIN medium ON x.id5 = medium.id5;

-- j5: inner join with a large table by an integer.
SELECT count(*), sum(x.v1), sum(big.v2) FROM x JOIN big ON x.id3 = big.id3;
