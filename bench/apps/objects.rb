# Objects in Ruby: strings beyond the embedded length, arrays and hashes that grow, and symbols.
Item = Struct.new(:name, :tags, :weight)

items = Array.new(60_000) do |i|
  name = "item number #{i} with a name that needs a block"
  Item.new(name, ["tag#{i % 97}", i.to_s * 8], i * 7919 % 1009)
end
groups = items.group_by(&:weight)
sorted = items.sort_by { |item| [-item.weight, item.name] }
index = {}
items.each { |item| (index[item.tags.first] ||= []) << item.name.upcase.reverse }
text = sorted.first(20_000).map { |item| "#{item.name}=#{item.weight};" }.join
3.times { text = text.split(';').map { |part| part.sub('item', 'entry') }.join(';') }
raise 'lost entries' unless index.values.sum(&:size) == items.size

puts [groups.size, sorted.first.name, text.size].join(' ')
