-- The usage of the limits, and which charges are recorded. Writes nothing.
--
-- ARGV after the caller's terms: ids of charges.
-- Reply: 'usage', why it is not the ledger that the caller has seen or ''; epoch, sequence, now, when the keys' lives
-- were renewed; for each limit: used, remaining, until when it
-- is closed or '', what was charged since the day began or '', the number of returns, and for each: the instant, units;
-- for each id: '1' where it is recorded, else '0'.
-- Cost: O(log n + n / BLOCK) a limit and slice of the window.

local log, forecast = open_log(ledger), open_forecast(ledger)

local function used_at(limit, at)
  local from = counted_from(limit, at)
  local most = log.between(limit.code, from, nil)
  for _, floor in ipairs(ledger.floors) do
    if floor.name == limit.name and floor.at >= from then
      most = math.max(most, floor.used + floor.after)
    end
  end
  return most
end

-- The ends of the slices in which returns are reported: up to the instant at which all is back, and 1, 6 and 24 hours.
local function slices(limit)
  local hour = 60 * 60 * 1000000
  local span, last = limit.slide or 24 * hour, forecast.expiry(limit, now)
  local ends = { now + hour, now + 6 * hour, now + 24 * hour, last }
  for slice = 1, 26 do
    ends[#ends + 1] = now + math.floor(span * slice / 24)
  end
  table.sort(ends)
  return ends, last
end

-- What counts now and no longer at the end of each slice, reported at the instant at which the last of it is back.
local function returns(limit)
  local slices_back, left = {}, limit.used
  local ends, last = slices(limit)
  for _, at in ipairs(ends) do
    local still = at <= last and left > 0 and used_at(limit, at) or left
    if still < left then
      slices_back[#slices_back + 1] = forecast.falls_to(limit, still)
      slices_back[#slices_back + 1] = left - still
    end
    left = still
  end
  return slices_back
end

local function since_reset(limit)
  local day
  for _, start in ipairs(limit.days) do
    day = start <= now and start or day
  end
  return day and log.between(limit.code, day, nil) or ''
end

if ledger.skew then
  return ledger.skew
end
local reply = { 'usage', ledger.loss or '', forecast.position() }
for _, limit in ipairs(limits) do
  add_up(ledger, limit)
  local back = returns(limit)
  for _, value in ipairs({
    limit.used,
    forecast.remaining(limit),
    forecast.closed(limit) or '',
    since_reset(limit),
    #back / 2,
    unpack(back),
  }) do
    reply[#reply + 1] = value
  end
end
while position < #ARGV do
  reply[#reply + 1] = log.charged_at(word()) and '1' or '0'
end
return reply
