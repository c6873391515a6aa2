# Words in Perl: scalars, arrays and hashes of strings, split, joined, sorted and thrown away.
use strict;
use warnings;

my @lines;
my $state = 4141;
for my $i (1 .. 12000) {
    my @words;
    for (1 .. 12) {
        $state = ($state * 1103515245 + 12345) % 2147483648;
        push @words, 'w' . ($state >> 8) % 5000;
    }
    push @lines, join(' ', $i, @words);
}

my (%count, %lines_of);
for my $line (@lines) {
    my ($number, @words) = split / /, $line;
    for my $word (@words) {
        $count{$word}++;
        push @{ $lines_of{$word} }, { line => $number, length => length $line };
    }
}
my @often = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
my $text = join "\n", map { "$_: " . join ',', map { $_->{line} } @{ $lines_of{$_} } } @often;
(my $other = $text) =~ s/w(\d+):/word $1 =/g;
print scalar(@often), ' ', length($text), ' ', length($other), ' ', $often[0], "\n";
