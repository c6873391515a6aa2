-- Strings in Lua: short ones are interned, long ones are blocks of their own, buffers grow.

local words = {}
for i = 1, 60000 do words[i] = string.format("word-%d-%s", i, string.rep("x", i % 60)) end

local text = table.concat(words, " ")
local counts = {}
for _ = 1, 5 do
  for word in text:gmatch("%S+") do
    local stem = word:sub(1, 12)
    counts[stem] = (counts[stem] or 0) + 1
  end
end

local upper = text:gsub("word%-(%d+)", function(number) return "W" .. number end)
local pieces = {}
for i = 1, #upper - 100, 97 do pieces[#pieces + 1] = upper:sub(i, i + 40) .. "|" .. i end
local distinct = 0
for _ in pairs(counts) do distinct = distinct + 1 end
print(#text, distinct, #upper, #table.concat(pieces))
