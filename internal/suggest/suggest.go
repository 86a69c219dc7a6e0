// Package suggest finds the known word that somebody probably meant when they
// typed an unknown one: a command, a configuration key or a verb of a scenario.
// The caller puts the result into its error ("did you mean …?").
package suggest

import "strings"

// Nearest returns the known word that is nearest to word, or "" if none is near.
// A known word is near if few letters differ: one in a word of up to five
// letters, two in one of up to seven, three in a longer one. If no known word is
// that near, Nearest returns the first that begins with word, provided that word
// has at least two letters. Upper and lower case are the same letter. Of words
// at the same distance, the first in known wins.
func Nearest(word string, known []string) string {
	word = strings.ToLower(word)
	best, least := "", max(1, min(3, len(word)/2-1))+1
	for _, k := range known {
		if d := distance(word, strings.ToLower(k)); d < least {
			best, least = k, d
		}
	}
	if best != "" || len(word) < 2 {
		return best
	}
	for _, k := range known {
		if strings.HasPrefix(strings.ToLower(k), word) {
			return k
		}
	}
	return ""
}

// distance returns the Levenshtein distance of two short strings, in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
