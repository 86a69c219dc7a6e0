// Package highlight finds the comments, strings, numbers and keywords in lines of source code, for syntax colours. It
// has no I/O.
//
// Invariants:
//
//   - The parts of a line are the line: nothing is left out, changed or reordered.
//   - A line takes time in proportion to its length, whatever it has in it: no rule looks back, or at a byte more than
//     a fixed number of times.
//
// It knows the lexical rules of some languages and no grammar, so what it says is a help for reading and nothing more.
// A library with the grammars of hundreds takes seconds for a hostile text (docs/adr/0039-own-highlighter.md).
package highlight

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Class says what a part of a line is.
type Class uint8

// The classes.
const (
	Plain Class = iota
	Comment
	String
	Number
	Keyword
)

// Language holds the lexical rules of a language. It is immutable.
type Language struct {
	line     []string // what begins a comment to the end of its line
	spaced   bool     // such a comment begins a word, as in shells
	quotes   []quote  // the longest beginning first
	words    map[string]bool
	apart    bool   // no quote begins behind a letter or digit, where it is an apostrophe
	fold     bool   // keywords are in any case
	wordly   string // what words have in them beside letters, digits and "_"
	markup   bool   // words are keywords behind "<" or "</", and quotes count in tags alone
	preamble string // what begins a word that is always a keyword, such as "@" or "#"
}

// quote is a comment or a string with an end.
type quote struct {
	begin, end string
	class      Class
	escape     byte // makes the next byte a part of it; 0: none does
	lines      bool // it may have several lines; if not, the end of the line ends it
}

// Scanner finds the parts of the lines of one text. It remembers whether a line begins inside a comment or a string.
type Scanner struct {
	language *Language
	inside   *quote // nil: none
	tag      bool   // in a tag of markup
}

// NewScanner returns a Scanner of a text of that language, at its beginning. For nil, everything is plain.
func NewScanner(l *Language) *Scanner { return &Scanner{language: l} }

// Line calls part for the parts of the next line in their order. The line has no line break.
func (s *Scanner) Line(line string, part func(class Class, text string)) {
	if s.language == nil {
		if line != "" {
			part(Plain, line)
		}
		return
	}
	plain := 0 // where the plain text before at begins
	emit := func(at, end int, class Class) {
		if plain < at {
			part(Plain, line[plain:at])
		}
		if at < end {
			part(class, line[at:end])
		}
		plain = end
	}
	for at := 0; at < len(line); {
		if s.inside != nil {
			q := s.inside
			end, closed := q.endIn(line, at)
			emit(at, end, q.class)
			if at = end; closed || !q.lines {
				s.inside = nil
			}
			continue
		}
		at = s.next(line, at, emit)
	}
	emit(len(line), len(line), Plain)
	if s.inside != nil && !s.inside.lines {
		s.inside = nil
	}
}

// next finds the part that begins at an offset, outside of comments and strings. It returns where the next one begins.
func (s *Scanner) next(line string, at int, emit func(at, end int, class Class)) int {
	l, rest := s.language, line[at:]
	r, n := utf8.DecodeRuneInString(rest)
	if !l.markup && l.begins(r) { // no comment or string begins like a word
		return s.word(line, at, n, emit)
	}
	for _, c := range l.line {
		if strings.HasPrefix(rest, c) && (!l.spaced || at == 0 || line[at-1] == ' ' || line[at-1] == '\t') {
			emit(at, len(line), Comment)
			return len(line)
		}
	}
	for i := range l.quotes {
		q := &l.quotes[i]
		if !strings.HasPrefix(rest, q.begin) || l.markup && q.class == String && !s.tag ||
			l.apart && at > 0 && isWordly(line[at-1]) {
			continue
		}
		end, closed := q.endIn(line, at+len(q.begin))
		emit(at, end, q.class)
		if !closed && q.lines {
			s.inside = q
		}
		return end
	}
	switch {
	case l.markup:
		return s.markupAt(line, at, n, emit)
	case isDigit(rest[0]) || r == '.' && len(rest) > 1 && isDigit(rest[1]):
		end := at + numberLen(rest)
		emit(at, end, Number)
		return end
	case strings.ContainsRune(l.preamble, r):
		return s.word(line, at, n, emit)
	}
	return at + n
}

// word finds the word that begins at an offset with a rune of n bytes, and tells if it is a keyword.
func (s *Scanner) word(line string, at, n int, emit func(at, end int, class Class)) int {
	l, end := s.language, at+n
	for end < len(line) {
		r, n := utf8.DecodeRuneInString(line[end:])
		if !l.begins(r) && !unicode.IsDigit(r) {
			break
		}
		end += n
	}
	word := line[at:end]
	if l.fold {
		word = strings.ToLower(word)
	}
	if l.words[word] || end > at+n && strings.Contains(l.preamble, line[at:at+n]) {
		emit(at, end, Keyword)
	}
	return end
}

// markupAt finds the part of markup that begins at an offset with a rune of n bytes.
func (s *Scanner) markupAt(line string, at, n int, emit func(at, end int, class Class)) int {
	switch line[at] {
	case '<':
		end := at + 1
		if end < len(line) && strings.IndexByte("/?!", line[end]) >= 0 {
			end++
		}
		name := end
		for end < len(line) && strings.IndexByte(" \t>/", line[end]) < 0 {
			end++
		}
		if s.tag = end > name; s.tag {
			emit(name, end, Keyword)
		}
		return end
	case '>':
		s.tag = false
	}
	return at + n
}

// begins reports whether r may begin a word.
func (l *Language) begins(r rune) bool {
	return r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= utf8.RuneSelf && unicode.IsLetter(r) ||
		strings.ContainsRune(l.wordly, r)
}

// isDigit reports whether a byte is a digit.
func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isWordly reports whether a byte is a part of a letter or digit.
func isWordly(c byte) bool {
	return c >= utf8.RuneSelf || isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'z'
}

// numberLen returns the length of the number that begins s.
func numberLen(s string) int {
	for i := 1; i < len(s); i++ {
		c := s[i]
		sign := (c == '+' || c == '-') && (s[i-1] == 'e' || s[i-1] == 'E') && !strings.HasPrefix(s, "0x")
		if c != '.' && c != '_' && !sign && !isDigit(c) && (c|0x20 < 'a' || c|0x20 > 'z') {
			return i
		}
	}
	return len(s)
}

// endIn returns where q ends in line. at is an offset inside q. closed is false if q does not end in the line.
func (q *quote) endIn(line string, at int) (end int, closed bool) {
	if q.escape == 0 {
		if i := strings.Index(line[at:], q.end); i >= 0 {
			return at + i + len(q.end), true
		}
		return len(line), false
	}
	for ; at < len(line); at++ {
		switch {
		case line[at] == q.escape:
			at++
		case strings.HasPrefix(line[at:], q.end):
			return at + len(q.end), true
		}
	}
	return len(line), false
}
