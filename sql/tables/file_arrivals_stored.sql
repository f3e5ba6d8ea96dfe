-- One row is one day on which bytes of a file arrived, and the highest offset of that day. It is kept longer than
-- the lines: bytes up to the offset of an expired day may have expired, so they are not reported as lost. The sort
-- key is its identity; it serves the view coverage: "which bytes may have expired?"
CREATE TABLE IF NOT EXISTS file_arrivals_stored
(
    generation String,
    is_samples Bool,
    arrived_on Date,
    bytes_to SimpleAggregateFunction(max, UInt64)
)
ENGINE = AggregatingMergeTree
ORDER BY (generation, is_samples, arrived_on);
