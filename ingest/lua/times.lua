-- Converts timestamps of log lines to UTC text, by the rules of ingest/times.py.
-- `now` is the epoch second of the line's arrival.

local recent = require("recent")

local times = {}

local FIRST_YEAR, LAST_YEAR = 1970, 2199
local UPTIME_TOLERANCE_MS = 2000
local DAY = 86400
local LONGEST_DELAY, FASTEST_CLOCK = 40 * DAY, DAY
local MOST_ANCHORS = 10000
local MONTHS = {
  Jan = 1, Feb = 2, Mar = 3, Apr = 4, May = 5, Jun = 6,
  Jul = 7, Aug = 8, Sep = 9, Oct = 10, Nov = 11, Dec = 12,
}
local DAYS = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 }

-- Returns the epoch seconds of a minute in UTC, given as text; nil if there is no such minute.
local function epoch(year, month, day, hour, minute)
  year, month, day = tonumber(year), tonumber(month), tonumber(day)
  hour, minute = tonumber(hour), tonumber(minute)
  if month < 1 or month > 12 then return nil end
  local is_leap = year % 4 == 0 and (year % 100 ~= 0 or year % 400 == 0)
  local last = DAYS[month] + ((month == 2 and is_leap) and 1 or 0)
  if day < 1 or day > last or hour > 23 or minute > 59 then return nil end
  -- Years are counted from March, so that a leap day is the last day of a year.
  local from_march = month > 2 and year or year - 1
  local day_of_year = math.floor((153 * ((month + 9) % 12) + 2) / 5) + day - 1
  local days = 365 * from_march + math.floor(from_march / 4) - math.floor(from_march / 100)
    + math.floor(from_march / 400) + day_of_year - 719468
  return days * DAY + hour * 3600 + minute * 60
end

-- Returns an epoch second as `2012-03-04T05:06`. Cached: the next line mostly has the same minute.
local last_minute, last_text
local function minute_text(seconds)
  local minute = math.floor(seconds / 60)
  if minute ~= last_minute then
    last_minute, last_text = minute, os.date("!%Y-%m-%dT%H:%M", minute * 60)
  end
  return last_text
end

local function join(seconds, seconds_text, fraction)
  -- a leap second
  if seconds_text == "60" then seconds, seconds_text = seconds + 60, "00" end
  local point = fraction ~= "" and "." or ""
  return minute_text(seconds) .. ":" .. seconds_text .. point .. fraction .. "Z"
end

local function zone_seconds(zone)
  if zone == "Z" or zone == "" then return 0 end
  local sign, hours, minutes = zone:match("^([+-])(%d%d):?(%d%d)$")
  if not sign or tonumber(minutes) > 59 or tonumber(hours) > 23 then return nil end
  local seconds = tonumber(hours) * 3600 + tonumber(minutes) * 60
  return sign == "-" and -seconds or seconds
end

-- Converts a time's parts (text) to event time text; nil if there is no such time. `ahead` is the
-- zone's offset: seconds ahead of UTC.
function times.from_parts(ahead, year, month, day, hour, minute, seconds, fraction)
  if tonumber(year) < FIRST_YEAR or tonumber(year) > LAST_YEAR then return nil end
  local moment = epoch(year, month, day, hour, minute)
  return moment and join(moment - ahead, seconds, fraction)
end

local function dated(stamp)
  local year, month, day, hour, minute, seconds, rest =
    stamp:match("^(%d%d%d%d)-(%d%d)-(%d%d)[T ](%d%d):(%d%d):(%d%d)(.*)$")
  if not year then return nil end
  local fraction, zone = rest:match("^[.,:](%d+)(.*)$")
  local ahead = zone_seconds(zone or rest)
  if not ahead then return nil end
  return times.from_parts(ahead, year, month, day, hour, minute, seconds, fraction or "")
end

-- Returns true for `2012-03-04T…` and `Mar 4 2012 …`, false for `Mar  4 05:06:07`.
function times.names_year(stamp)
  return stamp:find("^%d") ~= nil or stamp:find("^%a+ +%d+ %d%d%d%d ") ~= nil
end

-- Without a year, a timestamp gets the latest year in which it is at most one day after `now`.
-- February 29 may be up to eight years back.
local function bsd(stamp, now)
  local name, day, rest = stamp:match("^(%a%a%a) +(%d+) (.*)$")
  local month = MONTHS[name]
  if not month then return nil end
  local given, clock = rest:match("^(%d%d%d%d) (.*)$")
  local hour, minute, seconds, fraction =
    (clock or rest):match("^(%d%d):(%d%d):(%d%d)%.?(%d*)$")
  if not hour then return nil end
  if given then
    return times.from_parts(0, given, month, day, hour, minute, seconds, fraction)
  end
  local this_year = tonumber(os.date("!%Y", now + DAY))
  for year = this_year + 1, this_year - 7, -1 do
    local moment = epoch(year, month, day, hour, minute)
    if moment and moment <= now + DAY then return join(moment, seconds, fraction) end
  end
  return nil
end

-- Returns the whole epoch seconds and the fraction's digits of event time text.
local function split(event_time)
  local year, month, day, hour, minute, seconds, fraction =
    event_time:match("^(%d+)-(%d+)-(%d+)T(%d+):(%d+):(%d+)%.?(%d*)Z$")
  return epoch(year, month, day, hour, minute) + tonumber(seconds), fraction
end

-- `…:47Z` and `0.002` → `…:47.002Z`
local function add_seconds(event_time, burst)
  local seconds, fraction = split(event_time)
  local more_seconds, more_fraction = burst:match("^(%d+)%.(%d+)$")
  local digits = math.max(#fraction, #more_fraction)
  local function scaled(number) return tonumber(number .. ("0"):rep(digits - #number)) or 0 end
  local rest, unit = scaled(fraction) + scaled(more_fraction), 10 ^ digits
  seconds = seconds + tonumber(more_seconds) + math.floor(rest / unit)
  local text = string.format("%0" .. digits .. "d", rest % unit)
  return join(seconds, string.format("%02d", seconds % 60), text)
end

-- Returns the event time of a timestamp plus the burst's seconds; nil if the time is impossible.
function times.event_time(stamp, burst, now)
  local event_time
  if stamp:find("^%a") then event_time = bsd(stamp, now) else event_time = dated(stamp) end
  if event_time and burst then return add_seconds(event_time, burst) end
  return event_time
end

-- Returns true from 40 days before to one day after the arrival, in whole minutes.
local bounds_of, earliest, latest
function times.is_near_arrival(event_time, now)
  local minute = math.floor(now / 60)
  if minute ~= bounds_of then
    bounds_of = minute
    earliest = os.date("!%Y-%m-%dT%H:%M", minute * 60 - LONGEST_DELAY)
    latest = os.date("!%Y-%m-%dT%H:%M", minute * 60 + FASTEST_CLOCK)
  end
  local own = event_time:sub(1, 16)
  return earliest <= own and own <= latest
end

-- Adds milliseconds to whole-second timestamps, from the kernel's uptime in the same line. A host's
-- first line is the anchor; if the two differ by more than UPTIME_TOLERANCE_MS, this line is.
local anchors = recent.new(MOST_ANCHORS) -- host → epoch − uptime, in ms
function times.with_uptime(host, event_time, uptime)
  local days, hours, minutes, seconds = uptime:match("^(%d+):(%d%d):(%d%d):([%d.]+)$")
  local minutes_up = (tonumber(days) * 24 + tonumber(hours)) * 60 + tonumber(minutes)
  local uptime_ms = minutes_up * 60000 + tonumber((seconds:gsub("%.", "")))
  local stamp_ms = split(event_time) * 1000
  local anchor = recent.get(anchors, host)
  if not anchor or math.abs(uptime_ms + anchor - stamp_ms) > UPTIME_TOLERANCE_MS then
    anchor = stamp_ms - math.floor(uptime_ms / 1000) * 1000
    recent.put(anchors, host, anchor)
  end
  local ms = uptime_ms + anchor
  local rest_ms = ms % 60000
  return string.format("%s:%02d.%03dZ",
    minute_text(ms / 1000), math.floor(rest_ms / 1000), rest_ms % 1000)
end

-- Returns an epoch second with a fraction as event time text, to the microsecond.
function times.utc_text(moment)
  local us = math.floor(moment * 1e6 + 0.5)
  local seconds = math.floor(us / 1e6)
  local fraction = us % 1e6 > 0 and string.format("%06d", us % 1e6) or ""
  return join(seconds, string.format("%02d", seconds % 60), fraction)
end

return times
