-- What the ledger holds: the caller adds it up. Writes nothing.
--
-- KEYS and ARGV 1: as in ledger.lua; then the fields of the limits; then an instant and the most chunks to reply; then ids.
-- Reply: 'usage', why it is not the ledger that the caller has seen or ''; epoch or '', sequence, time, when lives were renewed,
-- the clock; the instant from which the log goes on where there are more chunks, else 0; of each limit what is stored or ''; for
-- each id '1' where it is recorded, else '0'; then the pieces of the log from the instant on, which are its cost.
offer('usage', true, true, function()
  local from, most = unpack_all(args[2 + count])
  local reply = { 'usage', loss or '', epoch or '', sequence, now, renewed, clock, 0 }
  for index = 1, count do
    reply[#reply + 1] = stored[2 + index] or ''
  end
  for place = 3 + count, #args do
    reply[#reply + 1] = find_record(args[place]) and '1' or '0'
  end
  local read, bytes = chunks_from(from, most), 0
  for place, chunk in ipairs(read) do
    reply[#reply + 1], bytes = chunk, bytes + #chunk
    if place == most or bytes > MOST_BYTES then
      local _, _, last = unpack_some(chunk, 2, 0)
      reply[8] = last + 1
      return reply
    end
  end
  reply[#reply + 1] = open_chunk()
  return reply
end)
