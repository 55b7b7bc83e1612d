-- The log: chunks, oldest first, then the open records. No chunk shares an instant with another or with the open records.
-- Cost: what a function reads is one chunk, unless its comment says more.

-- The chunks that end at an instant or later, at most so many. Without `main`, what is in the log means nothing.
local function chunks_from(from, most)
  return chunks > 0 and call('ZRANGEBYSCORE', LOG, from, '+inf', 'LIMIT', 0, most) or {}
end

-- The open records in the form of a chunk without sums.
local function open_chunk()
  return pack(0, newest, {}) .. records
end

-- Calls `visit` with the values of each record of a text, from an offset on.
local function each_record(text, offset, visit)
  while offset >= 0 and offset < #text do
    local values = { unpack_some(text, 4 * BATCH, offset) }
    for place = 2, #values, 4 do
      visit(values[place], values[place + 1], values[place + 2], values[place + 3])
    end
    offset = values[1]
  end
end

-- The records of a text, from an offset on; without it, those of a chunk.
local function records_of(text, offset)
  local list = {}
  each_record(text, offset or unpack_some(text, 3, 0), function(...)
    list[#list + 1] = { ... }
  end)
  return list
end

-- Records as they are stored, from one place of a list to another.
local function packed(list, first, last)
  local texts = {}
  for place = first, last do
    texts[#texts + 1] = pack(unpack(list[place]))
  end
  return table.concat(texts)
end

-- The records of the chunk that holds an instant, and the chunk; or the open records alone.
local function piece_at(at)
  local chunk = chunks_from(at, 1)[1]
  return records_of(chunk or records, not chunk and 0), chunk
end

-- Subtracts from a limit's total what the records of a text hold from its front until `from`; those that are left are ahead then.
-- Returns whether any are left.
local function pass(limit, text, offset, from)
  local front, left, places = limit[FRONT], {}, 0
  each_record(text, offset, function(at, _, taken)
    local units = taken[limit[NUMBER]] or 0
    if at >= from and units > 0 then
      left[places + 1], left[places + 2], places = at, units, places + 2
    elseif at >= front and at < from then
      limit[TOTAL] = limit[TOTAL] - units
    end
  end)
  limit[FRONT], limit[AHEAD] = left[1] or from, left[1] and places <= 4 * BATCH and pack(unpack(left)) or ''
  return left[1] ~= nil
end

-- Moves the front of a limit to an instant, or to its first record after that, and subtracts what it passes from the total.
-- Cost: the heads of the chunks that it passes.
local function expire(limit, from)
  local known, offset, at, units = limit[AHEAD], 0, nil, nil
  while known ~= '' and offset >= 0 do
    local start = offset
    offset, at, units = unpack_some(known, 2, offset)
    if at >= from then
      limit[FRONT], limit[AHEAD] = at, sub(known, start + 1)
      return
    end
    limit[TOTAL], limit[FRONT] = limit[TOTAL] - units, at + 1
  end
  limit[AHEAD] = ''
  local most = 1
  while not limit[WHOLE] do
    local read = chunks_from(limit[FRONT], most)
    for _, chunk in ipairs(read) do
      local offset, first, last, sums = unpack_some(chunk, 3, 0)
      if last < from and first >= limit[FRONT] then
        limit[TOTAL] = limit[TOTAL] - (sums[limit[NUMBER]] or 0)
      elseif pass(limit, chunk, offset, from) then
        return
      end
      limit[FRONT] = last + 1
      if last >= from then
        return
      end
    end
    if #read < most then
      limit[WHOLE] = not pass(limit, records, 0, from) or limit[AHEAD] ~= ''
      return
    end
    most = 64
  end
  limit[FRONT] = from
end

-- The units of a limit from an instant on. Cost: the heads of all chunks since then.
local function sum(number, from)
  local counted = { number, '', 0, from, '', false }
  expire(counted, math.huge)
  return -counted[TOTAL]
end

-- Sums the limits again of which the past changed: from the beginning of the longest window.
local function recount()
  for _, limit in pairs(limits) do
    if limit[FRONT] == 0 then
      local front = max(cleared + 1, now - keep)
      limit[FRONT], limit[TOTAL], limit[AHEAD], limit[WHOLE] = front, sum(limit[NUMBER], front), '', false
      -- Knows the first records, so that a rejection need not read them; no other window begins before this front.
      expire(limit, front)
      limit[FRONT] = front
    end
  end
end

-- What is used of a limit: its total, or more by floors (L40). Those before an instant count no more.
local function used_since(limit, from)
  local used, floors = limit[TOTAL], limit[FLOORS]
  limit[FLOORS] = false
  for place = 1, floors and #floors or 0, 3 do
    if floors[place] >= from then
      limit[FLOORS] = limit[FLOORS] or {}
      append(limit[FLOORS], floors[place], floors[place + 1], floors[place + 2])
      used = max(used, floors[place + 1] + floors[place + 2])
    end
  end
  return used
end

local function add_units(sums, units)
  for number, taken in next, units do
    sums[number] = (sums[number] or 0) + taken
  end
end

-- Adds a chunk, of records as they are stored.
local function add_chunk(first, last, sums, text)
  call('ZADD', LOG, last, pack(first, last, sums) .. text)
  renews, chunks, changes = renews or chunks == 0, chunks + 1, true
end

-- Writes records as chunks.
local function write_chunks(list)
  local start = 1
  while start <= #list do
    local stop, sums = #list - start >= 2 * CHUNK and start + CHUNK - 1 or #list, {}
    while list[stop + 1] and list[stop + 1][AT] == list[stop][AT] do
      stop = stop + 1
    end
    for place = start, stop do
      add_units(sums, list[place][UNITS])
    end
    add_chunk(list[start][AT], list[stop][AT], sums, packed(list, start, stop))
    start = stop + 1
  end
end

local function remove_chunk(chunk)
  call('ZREM', LOG, chunk)
  chunks, changes = chunks - 1, true
end

-- Forgets the ids of records, except those that later records have.
local function forget(list)
  local ids, gone = {}, {}
  for place, record in ipairs(list) do
    ids[place] = record[ID]
  end
  for place, at in ipairs(call_with('HMGET', IDS, ids, 1, #ids)) do
    if at and unpack_all(at) == list[place][AT] then
      gone[#gone + 1] = ids[place]
    end
  end
  call_with('HDEL', IDS, gone, 1, #gone)
end

-- Whether the id of a record is remembered (L11).
local function is_remembered(at, lasts)
  remembered_from = remembered_from or counted_from(remember - 1, false, forgets)
  return at >= remembered_from or lasts and at > now - keep
end

-- Makes the open records a chunk, and finds their ids there from then on.
local function seal()
  -- Redis searches a hash of short values from end to end, up to 512. One of 65 bytes makes it a table.
  local ids, places, sums, first, final = { '', string.rep('0', chunks < 8 and 1 or 65) }, 2, {}, nil, nil
  -- Without `main`, what is left of the other keys means nothing.
  local _ = chunks == 0 and call('DEL', LOG, IDS)
  each_record(records, 0, function(at, id, units, lasts)
    first, final = first or at, at
    add_units(sums, units)
    if is_remembered(at, lasts) then
      ids[places + 1], ids[places + 2], places = id, pack(at), places + 2
    end
  end)
  call_with('HSET', IDS, ids, 1, places)
  add_chunk(first, final, sums, records)
  records = ''
end

-- Forgets all records.
local function clear()
  call('DEL', LOG, IDS)
  records, chunks, merged, cleared, changes = '', 0, 0, newest, true
end

-- The newest record of an id that is remembered, the records of its piece, and the chunk; no chunk where it is open.
local function find_record(id)
  local function remembered(list, chunk)
    for place = #list, 1, -1 do
      local record = list[place]
      if record[ID] == id and record[AT] > forgotten and is_remembered(record[AT], record[LASTS]) then
        return record, list, chunk
      end
    end
  end
  local record, list = remembered(find(records, id, 1, true) and records_of(records, 0) or {})
  local at = not record and chunks > 0 and call('HGET', IDS, id)
  if not at then
    return record, list
  end
  return remembered(piece_at(unpack_all(at)))
end
