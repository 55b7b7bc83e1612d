-- How the limits stand, and which charges are recorded. Writes nothing.
--
-- ARGV after the common ones: ids of charges.
-- Reply: 'usage', why it is not the ledger that the caller has seen or ''; epoch, sequence, now, when the keys' lives
-- were renewed; for each limit: used, remaining, until when it
-- is closed or '', what was charged since the day began or '', the number of returns, and for each: the instant, units;
-- for each id: '1' where it is recorded, else '0'.
-- Cost: O(log n + n / BLOCK) a limit and slice of the window.

local old = open_archive()

local function used_at(limit, at)
  local from = counted_from(limit, at)
  local most = old.between(limit.code, from, nil)
  for _, floor in ipairs(floors) do
    if floor.name == limit.name and floor.at >= from then
      most = max(most, floor.used + floor.after)
    end
  end
  return most
end

-- Where what returns is cut into slices: up to the instant at which all is back, and at those about which people ask.
local function slices(limit)
  local hour = 60 * 60 * 1000000
  local span, last = limit.slide or 24 * hour, old.expiry(limit, now)
  local ends = { now + hour, now + 6 * hour, now + 24 * hour, last }
  for slice = 1, 26 do
    ends[#ends + 1] = now + math.floor(span * slice / 24)
  end
  table.sort(ends)
  return ends, last
end

-- What counts now and no longer at the end of each slice, told when the last of it is back.
local function returns(limit)
  local told_returns, left = {}, limit.used
  local ends, last = slices(limit)
  for _, at in ipairs(ends) do
    local still = at <= last and left > 0 and used_at(limit, at) or left
    if still < left then
      told_returns[#told_returns + 1] = old.falls_to(limit, still)
      told_returns[#told_returns + 1] = left - still
    end
    left = still
  end
  return told_returns
end

local function since_reset(limit)
  local day
  for _, start in ipairs(limit.days) do
    day = start <= now and start or day
  end
  return day and old.between(limit.code, day, nil) or ''
end

if skew then
  return skew
end
local reply = { 'usage', loss or '', old.contact() }
for _, limit in ipairs(limits) do
  add_up(limit)
  local back = returns(limit)
  for _, value in ipairs({
    limit.used,
    old.remaining(limit),
    old.closed(limit) or '',
    since_reset(limit),
    #back / 2,
    unpack(back),
  }) do
    reply[#reply + 1] = value
  end
end
while position < #ARGV do
  reply[#reply + 1] = old.knows(word()) and '1' or '0'
end
return reply
