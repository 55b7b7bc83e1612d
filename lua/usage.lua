-- The usage of the limits, and which charges are recorded. Writes nothing.
--
-- ARGV after the caller's terms: ids of charges.
-- Reply: 'usage', why it is not the ledger that the caller has seen or ''; epoch, sequence, now, when the keys' lives
-- were renewed; for each limit: used, remaining, until when it
-- is closed or '', what was charged since the day began or '', the number of returns, and for each: the instant, units;
-- for each id: '1' where it is recorded, else '0'.
-- Cost: O(log n + n / BLOCK) a limit and slice of the window; O(n) for all limits of one window where they are many.

local log, forecast = open_log(ledger), open_forecast(ledger)

-- Reads the charges of limits that share a window, once for all of them: in `charges` of each the time and units of one after
-- another, oldest first.
local function read_charges(group)
  local of_code = {}
  for _, limit in ipairs(group) do
    limit.charges = {}
    of_code[limit.code] = limit.charges
  end
  -- Continues at the instant of the last charge read, of which `read` are known.
  local from, read, batch = string.format('%d', group[1].from), 0, 512
  repeat
    local entries = redis.call('ZRANGEBYSCORE', KEYS[2], from, '+inf', 'WITHSCORES', 'LIMIT', read, batch)
    local ids = {}
    for place = 1, #entries, 2 do
      ids[#ids + 1] = entries[place]
    end
    local vectors = #ids > 0 and redis.call('HMGET', KEYS[3], unpack(ids)) or {}
    for place, vector in ipairs(vectors) do
      local at = entries[2 * place]
      from, read = at, at == from and read + 1 or 1
      for code, units in pairs(log.add_vector({}, vector, 1)) do
        local charges = units > 0 and of_code[code]
        if charges then
          charges[#charges + 1], charges[#charges + 2] = tonumber(at), units
        end
      end
    end
  until #ids < batch
end

-- Reads the charges of each window that more than a few limits share.
local function read_shared_windows()
  local MOST_APART = 16
  local groups = {}
  for _, limit in ipairs(limits) do
    local first = limit.like or limit
    groups[first] = groups[first] or {}
    table.insert(groups[first], limit)
  end
  for _, group in pairs(groups) do
    if #group > MOST_APART then
      read_charges(group)
    end
  end
end

-- What was charged of a limit from `from` on.
local function charged_from(limit, from)
  if not limit.charges then
    return log.between(limit.code, from, nil)
  end
  local charges, sum = limit.charges, 0
  for place = 1, #charges, 2 do
    sum = charges[place] >= from and sum + charges[place + 1] or sum
  end
  return sum
end

local function used_from(limit, from)
  return forecast.above_floors(limit, from, charged_from(limit, from))
end

local function add_up_of(limit)
  if not limit.charges then
    return add_up(ledger, limit)
  end
  limit.sum = charged_from(limit, limit.from)
  limit.used = forecast.above_floors(limit, limit.from, limit.sum)
end

-- The ends of the slices in which returns are reported: up to the instant at which all is back, and 1, 6 and 24 hours; what
-- counts at each is charged from the instant beside it on. The same for all limits of a window.
local function slices(limit)
  local first = limit.like or limit
  if first.slices then
    return first.slices
  end
  local hour = 60 * 60 * 1000000
  local span, last = limit.slide or 24 * hour, forecast.expiry(limit, now)
  local ends, slices = { now + hour, now + 6 * hour, now + 24 * hour, last }, {}
  for slice = 1, 26 do
    ends[#ends + 1] = now + math.floor(span * slice / 24)
  end
  table.sort(ends)
  for _, at in ipairs(ends) do
    local from = at <= last and counted_from(limit, at)
    if from and from ~= slices[#slices] then
      slices[#slices + 1] = from
    end
  end
  first.slices = slices
  return slices
end

-- What counts now and no longer at the end of each slice, reported at the instant at which the last of it is back.
local function returns(limit)
  local slices_back, left = {}, limit.used
  for _, from in ipairs(slices(limit)) do
    local still = left > 0 and used_from(limit, from) or left
    if still < left then
      slices_back[#slices_back + 1] = forecast.falls_to(limit, still)
      slices_back[#slices_back + 1] = left - still
    end
    left = still
  end
  return slices_back
end

local function since_reset(limit)
  local first = limit.like or limit
  if first.day == nil then
    first.day = false
    for _, start in ipairs(limit.days) do
      first.day = start <= now and start or first.day
    end
  end
  return first.day and charged_from(limit, first.day) or ''
end

if ledger.skew then
  return ledger.skew
end
read_shared_windows()
local reply = { 'usage', ledger.loss or '', forecast.position() }
local last = #reply
for _, limit in ipairs(limits) do
  add_up_of(limit)
  local back = returns(limit)
  reply[last + 1], reply[last + 2] = limit.used, forecast.remaining(limit)
  reply[last + 3], reply[last + 4] = forecast.closed(limit) or '', since_reset(limit)
  reply[last + 5] = #back / 2
  last = last + 5
  for _, value in ipairs(back) do
    last = last + 1
    reply[last] = value
  end
end
while position < #ARGV do
  reply[#reply + 1] = log.charged_at(word()) and '1' or '0'
end
return reply
