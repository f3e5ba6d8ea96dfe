-- Which lines of all logs belong to an operation, by default that of the longest stun?
-- vCenter, its agent, hostd and the VM each add a part to the operation id. Without `operation`: the
-- operation of the longest stun with an id.
-- param operation = : operation id, as in a stun or a line
-- param vm = : part of the VM's name
-- param hours = 1 : hours around the stun, or around the last line with this id
-- param most = 200 : number of lines
WITH
    named AS
    (
        SELECT op_id, ended_at
        FROM stuns
        WHERE op_id != '' AND positionCaseInsensitive(vm, {vm:String}) > 0
        ORDER BY duration_us DESC, ended_at ASC
        LIMIT 1
    ),

    if({operation:String} = '', (SELECT max(op_id) FROM named), {operation:String}) AS operation,
    if(
        {operation:String} = '',
        (SELECT max(ended_at) FROM named),
        (SELECT maxIf(event_time, op_id = {operation:String}) FROM log_lines_stored)
    ) AS around

SELECT
    event_time,
    host,
    vm,
    program,
    op_id,
    message
FROM log_lines
WHERE
    event_time >= around - toIntervalHour({hours:UInt32})
    AND event_time <= around + toIntervalHour({hours:UInt32})
    AND length(op_id) >= 8
    AND (startsWith(operation, op_id) OR startsWith(op_id, operation))
ORDER BY event_time ASC, length(op_id) ASC, message ASC
LIMIT {most:UInt32};
