-- How long have the Kafka tables not polled, and what was the newest error of each? A server that has just started has
-- not polled yet. The text of an error continues with a stack trace.
SELECT
    table AS name,
    max(least(dateDiff('second', last_poll_time, now()), uptime())) AS seconds,
    argMax(if(empty(exceptions.text), '', splitByChar('\n', exceptions.text[-1])[1]), exceptions.time[-1]) AS error
FROM system.kafka_consumers
WHERE database = 'stunwatch'
GROUP BY table
ORDER BY table ASC;
