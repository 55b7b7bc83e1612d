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

-- The records of a text, from an offset on; without it, those of a chunk.
local function records_of(text, offset)
  local list = {}
  offset = offset or unpack_some(text, 3, 0)
  while offset >= 0 and offset < #text do
    local values = { unpack_some(text, 4 * BATCH, offset) }
    for place = 2, #values, 4 do
      list[#list + 1] = { values[place], values[place + 1], values[place + 2], values[place + 3] }
    end
    offset = values[1]
  end
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
  local number, front, left, places = limit[NUMBER], limit[FRONT], {}, 0
  while offset >= 0 and offset < #text do
    local values = { unpack_some(text, 4 * BATCH, offset) }
    for place = 2, #values, 4 do
      local at, units = values[place], values[place + 2][number] or 0
      if at >= from and units > 0 then
        left[places + 1], left[places + 2], places = at, units, places + 2
      elseif at >= front and at < from then
        limit[TOTAL] = limit[TOTAL] - units
      end
    end
    offset = values[1]
  end
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

-- Writes records as chunks. `text`: how they are stored, where they did not change.
local function write_chunks(list, text)
  local start = 1
  renews = renews or chunks == 0
  while start <= #list do
    local stop = #list - start >= 2 * CHUNK and start + CHUNK - 1 or #list
    while list[stop + 1] and list[stop + 1][AT] == list[stop][AT] do
      stop = stop + 1
    end
    local sums = {}
    for place = start, stop do
      for number, units in pairs(list[place][UNITS]) do
        sums[number] = (sums[number] or 0) + units
      end
    end
    local head = pack(list[start][AT], list[stop][AT], sums)
    call('ZADD', LOG, list[stop][AT], head .. (stop - start + 1 == #list and text or packed(list, start, stop)))
    chunks, start = chunks + 1, stop + 1
  end
  changes = true
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
local function is_remembered(record)
  remembered_from = remembered_from or counted_from(remember - 1, false, forgets)
  return record[AT] >= remembered_from or record[LASTS] and record[AT] > now - keep
end

-- Makes records a chunk that were open, and finds their ids there from then on.
local function seal(list, text)
  -- Redis searches a hash of short values from end to end, up to 512. One of 65 bytes makes it a table.
  local ids, places = { '', string.rep('0', chunks < 8 and 1 or 65) }, 2
  -- Without `main`, what is left of the other keys means nothing.
  local _ = chunks == 0 and call('DEL', LOG, IDS)
  for _, record in ipairs(list) do
    if is_remembered(record) then
      ids[places + 1], ids[places + 2], places = record[ID], pack(record[AT]), places + 2
    end
  end
  call_with('HSET', IDS, ids, 1, places)
  write_chunks(list, text)
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
      if record[ID] == id and record[AT] > forgotten and is_remembered(record) then
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
