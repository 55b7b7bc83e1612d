-- Reads the state of the ledger, and compares it with what the caller has seen (L34, L35). Writes nothing.
--
-- A limit's total is what was charged from its head on. What lies between the head and the beginning of the window has
-- expired and is subtracted at each call; a granted charge moves the head there. So removing old charges from the log can
-- wait.
--
-- Every reply begins with a word: 'skewed' and how far; 'lost' and why; or what the script says.

-- A replica may lag behind, and a rejection writes nothing that Redis would refuse there: so it answers nothing (L51). The
-- replication id is read at every call (L33): a connection that a replica accepted before it was promoted lives on.
local info = call('INFO', 'replication')
if not string.find(info, 'role:master', 1, true) then
  return redis.error_reply("READONLY You can't write against a read only replica.")
end
local replid = string.find(info, 'master_replid:', 1, true) + 14
local server = string.sub(info, replid, replid + 39)

local clock = told
if not clock then
  local time = call('TIME')
  clock = time[1] * 1000000 + time[2]
end

local stored = call('HGET', KEYS[1], 'state')
local state, floors = nil, {}
-- Where limits have fields of their own: the numbers of those that are loaded, how many limits there are and are stored, and
-- the latest instant until which one was ever closed. nil where the state holds all of them.
local apart
if not stored then
  state = { false, server, 0, 0, keep, 0, false }
elseif #stored == 1 then
  state = { cmsgpack.unpack(call('HGET', KEYS[1], 'header')) }
  local size = state[FIRST_PLACE]
  apart = { size = size, stored = size, latest_closing = state[FIRST_PLACE + 1] }
  state[FIRST_PLACE], state[FIRST_PLACE + 1], state.apart = nil, nil, apart

  -- Loads a limit into the state; returns its place, nil when there is no such limit.
  function apart.load(name)
    local field = call('HGET', KEYS[1], 'limit:' .. name)
    if not field then
      return nil
    end
    local values = { cmsgpack.unpack(field) }
    local code = values[1]
    local place = FIRST_PLACE + (code - 1) * NEXT_PLACE
    if state[place] == nil then
      state[place] = name
      for offset = RULE, PROBING do
        state[place + offset] = values[1 + offset]
      end
      for floor = FIRST_FLOOR, #values, 3 do
        floors[name] = floors[name] or {}
        table.insert(floors[name], { at = values[floor], used = values[floor + 1], after = values[floor + 2] })
      end
      apart[#apart + 1] = code
    end
    return place
  end
else
  state = { cmsgpack.unpack(stored) }
end
if state[KEEP] > keep then
  keep = state[KEEP]
end
state[KEEP] = keep
-- The ledger's time never runs backwards (L4): it is never before the newest charge, and it is after every floor.
local now = clock > state[NEWEST] and clock or state[NEWEST]

-- The earliest charge that still counts at `at`: `Window::counted_from` (L2).
local function counted_from(limit, at)
  local slid, days = limit.slide and at - limit.slide - limit.grace + 1, limit.days
  if #days == 0 then
    return limit.part and slid - slid % limit.part or slid
  end
  local last
  for _, day in ipairs(days) do
    if day > at - limit.grace then
      break
    end
    last = day
  end
  local reset = last and last - limit.grace
  return math.min(slid or reset or at, reset or slid or at)
end

-- With room for two, as a table is made again when it grows.
local limits = { nil, nil }
for index = 1, count do
  local name, enforced, slide, grace, part, rule, days, units, leave = cmsgpack.unpack(ARGV[1 + index])
  local place
  if apart then
    place = apart.load(name)
  else
    for candidate = FIRST_PLACE, #state, NEXT_PLACE do
      if state[candidate] == name then
        place = candidate
        break
      end
    end
  end
  local other_rule = place and state[place + RULE]
  if not place then
    place = #state + 1
    if apart then
      apart.size = apart.size + 1
      apart[#apart + 1], place = apart.size, FIRST_PLACE + (apart.size - 1) * NEXT_PLACE
    end
    state[place], state[place + RULE], state[place + TOTAL], state[place + HEAD] = name, rule, 0, 0
    state[place + CLOSED], state[place + PROBING] = 0, false
  end
  -- An earlier limit with the same window.
  local like = limits[days]
  -- Sixteen fields, and each that a charge needs is named: a table with more takes twice the memory, and one that grows is
  -- made again.
  local limit = {
    name = name,
    enforced = enforced,
    slide = slide,
    grace = grace,
    part = part,
    rule = rule,
    days = like and like.days or days,
    like = like,
    place = place,
    -- Its number in a vector of units.
    code = (place - FIRST_PLACE) / NEXT_PLACE + 1,
    other_rule = other_rule,
    from = nil,
    sum = nil,
    used = nil,
    -- What is charged, and how much may be used afterwards.
    units = units,
    most = leave and enforced - leave,
  }
  limit.from = like and like.from or counted_from(limit, now)
  limits[index] = limit
end

-- The floors of each limit, by its name.
if state[FLOORS] then
  local written = call('HGET', KEYS[1], 'floors') or ''
  for name, at, units, after in string.gmatch(written, '([^\n]+)\n(%d+) (%d+) (%d+)\n') do
    floors[name] = floors[name] or {}
    table.insert(floors[name], { at = tonumber(at), used = tonumber(units), after = tonumber(after) })
  end
end

-- Why this is not the ledger that the caller has seen; nil when it is.
--   empty, server, behind: the recovery begins a new epoch, so that every machine finds the loss (L36)
--   epoch: another machine has begun one
local loss
if seen_epoch == '-' then
  loss = nil
elseif not state[EPOCH] then
  loss = seen_epoch ~= '' and 'empty' or nil
elseif seen_epoch == '' then
  loss = nil
elseif state[SERVER] ~= server then
  loss = 'server'
elseif state[EPOCH] ~= seen_epoch then
  loss = 'epoch'
elseif state[SEQUENCE] < seen_sequence or (seen_newest ~= '' and not call('ZSCORE', KEYS[2], seen_newest)) then
  loss = 'behind'
end

-- A clock that jumped forward would return units too early; one that jumped back would report a wrong retry (L5). The
-- ledger's own time may be ahead of a clock that was set back; it is never behind it.
local skew
if max_skew then
  local ahead, behind = now - caller, caller - clock
  local apart = ahead > behind and ahead or behind
  skew = apart > max_skew and { 'skewed', apart } or nil
end

-- What the functions below take. `objection` is the reply when nothing may be done; nil when all is well. The clock comes
-- first, and nothing was written yet.
local ledger = {
  state = state,
  limits = limits,
  floors = floors,
  now = now,
  keep = keep,
  remember = remember,
  forgets = forgets,
  merges = merges,
  least_life = least_life,
  stored = stored,
  stored_epoch = state[EPOCH],
  stored_sequence = state[SEQUENCE],
  server = server,
  fresh_epoch = fresh_epoch,
  skew = skew,
  loss = loss,
  objection = skew or loss and { 'lost', loss },
  -- Whether floors may be dropped that no window reaches any more: only a charge moves the ledger's time.
  drops_floors = nil,
}
