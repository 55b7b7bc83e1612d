-- What the ledger holds: the caller adds it up. Writes nothing.
--
-- KEYS and ARGV 1: as in ledger.lua; then the fields of the limits; then an instant and the most chunks to reply; then ids.
-- Reply: 'usage', the report; why it is not the ledger that the caller has seen or ''; the instant from which the log goes on where
-- there are more chunks, else 0; of each limit what is stored or ''; for each id 1 where it is recorded, else 0; the pieces of the
-- log from the instant on, which are its cost.
offer('usage', true, true, function()
  local from, most = unpack_all(args[2 + count])
  local known, recorded, pieces, bytes = {}, {}, {}, 0
  for index = 1, count do
    known[index] = stored[2 + index] or ''
  end
  for place = 3 + count, #args do
    append(recorded, find_record(args[place]) and 1 or 0)
  end
  for place, chunk in ipairs(chunks_from(from, most)) do
    pieces[place], bytes = chunk, bytes + #chunk
    if place == most or bytes > MOST_BYTES then
      local _, _, last = unpack_some(chunk, 2, 0)
      return { 'usage', report(), loss or '', last + 1, known, recorded, pieces }
    end
  end
  append(pieces, open_chunk())
  return { 'usage', report(), loss or '', 0, known, recorded, pieces }
end)
