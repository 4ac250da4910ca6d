// Package quantity is amounts as people write them: bytes, cores and spans of time.
//
// Place: layer 1, vocabulary, below api/v1, which has them under its own names. Promise: what is read is exactly what was written, or an
// error says in both languages what would be right. Enemies: units that are a guess, and a parser that caps or rounds without a word.
package quantity
