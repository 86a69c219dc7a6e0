package name

import (
	"maps"
	"slices"
	"strings"
	"unicode"
)

// systems are the writing systems of several scripts that count as one (UTS #39, section 5.1).
var systems = [][]string{
	{"Han", "Hiragana", "Katakana"}, // Japanese
	{"Han", "Hangul"},               // Korean
	{"Han", "Bopomofo"},             // Chinese with its phonetic letters
}

// scriptNames are the names of the scripts in alphabetical order, without those of characters
// that belong to every script.
var scriptNames = slices.DeleteFunc(slices.Sorted(maps.Keys(unicode.Scripts)), func(s string) bool {
	return s == "Common" || s == "Inherited"
})

// mixedScripts returns the scripts of s, for a message, or "" if s has one script or one
// writing system. Characters of every script do not count.
func mixedScripts(s string) string {
	var found []string
	for _, r := range s {
		if r < 0x80 && !unicode.IsLetter(r) || unicode.In(r, unicode.Common, unicode.Inherited) {
			continue
		}
		if !slices.ContainsFunc(found, func(script string) bool { return unicode.Is(unicode.Scripts[script], r) }) {
			found = append(found, scriptOf(r))
		}
	}
	if len(found) <= 1 {
		return ""
	}
	for _, system := range systems {
		if !slices.ContainsFunc(found, func(script string) bool { return !slices.Contains(system, script) }) {
			return ""
		}
	}
	return strings.Join(found, ", ")
}

// scriptOf returns the name of r's script, "Unknown" if r is not assigned.
func scriptOf(r rune) string {
	for _, name := range scriptNames {
		if unicode.Is(unicode.Scripts[name], r) {
			return name
		}
	}
	return "Unknown"
}
