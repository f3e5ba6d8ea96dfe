-- Limits the lines per second of each sender: a token bucket per address.

local limits = {}

-- Lines per second on average (RATE) and at once (BURST). journald allows 10,000 lines per service
-- in 30 s. A host with storage trouble writes several thousand lines a second for a while, hence
-- the burst. A relay of many hosts counts as one sender.
limits.RATE = tonumber(os.getenv("STUNWATCH_SENDER_RATE") or "") or 2000
limits.BURST = tonumber(os.getenv("STUNWATCH_SENDER_BURST") or "") or 120000
-- Sender addresses of datagrams can be forged: beyond this number, senders share one bucket.
limits.MOST_SENDERS = 20000
limits.OTHERS = "others"
local REPORT_SECONDS = 10

local buckets, senders = {}, 0 -- address → {tokens, filled_at}
local lost = {} -- address → lines dropped since the last report
local next_report, next_sweep = 0, 0

local function fill(bucket, now)
  local seconds = math.max(0, now - bucket.filled_at)
  bucket.tokens = math.min(limits.BURST, bucket.tokens + seconds * limits.RATE)
  bucket.filled_at = now
end

-- Removes full buckets: a new one would be equal.
local function forget_full(now)
  if now < next_sweep then return end
  next_sweep = now + 1
  for sender, bucket in pairs(buckets) do
    fill(bucket, now)
    if bucket.tokens >= limits.BURST then
      buckets[sender], senders = nil, senders - 1
    end
  end
end

local function bucket_of(sender, now)
  local bucket = buckets[sender]
  if bucket then return sender, bucket end
  if senders >= limits.MOST_SENDERS then
    forget_full(now)
    if senders >= limits.MOST_SENDERS then
      sender = limits.OTHERS
      if buckets[sender] then return sender, buckets[sender] end
    end
  end
  bucket = { tokens = limits.BURST, filled_at = now }
  buckets[sender], senders = bucket, senders + 1
  return sender, bucket
end

-- Returns true if a line of this sender may pass at a time in seconds. Counts dropped lines.
function limits.passes(sender, now)
  local name, bucket = bucket_of(sender, now)
  fill(bucket, now)
  if bucket.tokens >= 1 then
    bucket.tokens = bucket.tokens - 1
    return true
  end
  lost[name] = (lost[name] or 0) + 1
  return false
end

-- Every ten seconds, returns sender → number of lines dropped since the last report; else nil.
function limits.report(now)
  if next(lost) == nil or now < next_report then return nil end
  next_report = now + REPORT_SECONDS
  local reported = lost
  lost = {}
  return reported
end

return limits
