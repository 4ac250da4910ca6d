// Package near knows what people may have meant: how far apart two words are, and what other tools call things.
//
// Place: layer 5, below cli. Promise: pure. Enemies: none but typing errors.
package near

// Distance is how many letters differ: Levenshtein's, in two rows.
func Distance(a, b string) int {
	above := make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := range len(a) {
		row := []int{i + 1}
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row = append(row, min(above[j+1]+1, row[j]+1, above[j]+cost))
		}
		above = row
	}
	return above[len(b)]
}
