COALESCE(((price * (1 - (12.3456 - price))) % COALESCE(CASE WHEN certain THEN discount ELSE discount END, (vast / CAST(99999999999999.99 AS DECIMAL(16,2))))), price)
((price * (1 - (12.3456 - price))) % COALESCE(CASE WHEN certain THEN discount ELSE discount END, (vast / CAST(99999999999999.99 AS DECIMAL(16,2)))))
CAST(((price * (1 - (12.3456 - price))) % COALESCE(CASE WHEN certain THEN discount ELSE discount END, (vast / CAST(99999999999999.99 AS DECIMAL(16,2))))) AS DECIMAL(38,15))
