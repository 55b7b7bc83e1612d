-- Reads the arguments that follow the caller's terms, one after another.

local position = 1 + count

local function word()
  position = position + 1
  return ARGV[position]
end

local function number()
  position = position + 1
  return tonumber(ARGV[position])
end
