-- What the keys of a ledger hold, and what of it does not fit together.
-- Reply: the numbers of records, of chunks, of ids in chunks and of floors; then what is wrong, in words.
local MAIN, LOG, IDS = KEYS[1], KEYS[2], KEYS[3]
local call, unpack_all = redis.call, cmsgpack.unpack
local about = call('HGET', MAIN, 'about')
if not about then
  return { 0, 0, 0, 0 }
end
local _, _, _, _, _, chunks, size, _, _, cleared = unpack_all(about)
local open = call('HGET', MAIN, 'open')
local _, newest = struct.unpack('>I8I8', open)
local wrong, records, floors, last_end = {}, {}, 0, -1
local function expect(holds, what)
  if not holds then
    wrong[#wrong + 1] = what
  end
end
local function add(list, where)
  for place, record in ipairs(list) do
    expect(place == 1 or list[place - 1][1] <= record[1], where .. ' is not in order')
    records[#records + 1] = record
  end
end
local function records_of(text, offset)
  local list = {}
  while offset >= 0 and offset < #text do
    local at, id, units
    offset, at, id, units = cmsgpack.unpack_limit(text, 4, offset)
    list[#list + 1] = { at, id, units }
  end
  return list
end
local members = call('ZRANGE', LOG, 0, -1, 'WITHSCORES')
local in_chunks = {}
for place = 1, #members, 2 do
  local offset, first, last, sums = cmsgpack.unpack_limit(members[place], 3, 0)
  local list = records_of(members[place], offset)
  local where = 'chunk ' .. (place + 1) / 2
  expect(tonumber(members[place + 1]) == last and #list > 0, where .. ' has another score')
  expect(list[1][1] == first and list[#list][1] == last, where .. ' has other ends')
  expect(first > last_end, where .. ' overlaps')
  local before_last = 0
  for _, record in ipairs(list) do
    before_last = before_last + (record[1] < last and 1 or 0)
  end
  -- Records of one instant are not divided.
  expect(before_last <= 48, where .. ' has ' .. before_last .. ' records')
  last_end = last
  local truth = {}
  for _, record in ipairs(list) do
    in_chunks[record[2]] = in_chunks[record[2]] or {}
    in_chunks[record[2]][record[1]] = true
    for number, units in pairs(record[3]) do
      truth[number] = (truth[number] or 0) + units
    end
  end
  for number, units in pairs(truth) do
    expect((sums[number] or 0) == units, where .. ' has another sum')
  end
  for number, units in pairs(sums) do
    expect((truth[number] or 0) == units, where .. ' has another sum')
  end
  add(list, where)
end
expect(#members / 2 == chunks, 'there are ' .. #members / 2 .. ' chunks, not ' .. chunks)
local list = records_of(open, 16)
add(list, 'the open records')
expect(not list[1] or list[1][1] > last_end, 'the open records overlap')
expect(not records[1] or records[#records][1] <= newest, 'a record is newer than the newest')
local limits = 0
for _, field in ipairs(call('HKEYS', MAIN)) do
  if string.sub(field, 1, 6) == 'limit:' then
    limits = limits + 1
    local number, _, total, front, ahead, whole, _, _, held = unpack_all(call('HGET', MAIN, field))
    expect(call('HGET', MAIN, 'name:' .. number) == field, field .. ' has another number')
    floors = floors + (held and #held / 3 or 0)
    if front > cleared then
      local mine, sum = {}, 0
      for _, record in ipairs(records) do
        local units = record[3][number] or 0
        if record[1] >= front and units > 0 then
          mine[#mine + 1], mine[#mine + 2], sum = record[1], units, sum + units
        end
      end
      expect(sum == total, field .. ' has a total of ' .. total .. ', not ' .. sum)
      local known = { unpack_all(ahead) }
      for place, value in ipairs(known) do
        expect(mine[place] == value, field .. ' knows another record')
      end
      expect(not whole or #known == #mine, field .. ' knows less than all')
    end
  end
end
expect(limits == size, 'there are ' .. limits .. ' limits, not ' .. size)
local ids = call('HGETALL', IDS)
for place = 1, #ids, 2 do
  if ids[place] ~= '' and chunks > 0 then
    local at = unpack_all(ids[place + 1])
    expect(in_chunks[ids[place]] and in_chunks[ids[place]][at], 'an id has no record at ' .. at)
  end
end
return { #records, chunks, math.max(#ids / 2 - 1, 0), floors, unpack(wrong) }
