package document

import "bytes"

// valueEnd returns where the value that begins at i ends. The text has been parsed, so its
// brackets and quotation marks are balanced.
func valueEnd(text []byte, i int) int {
	switch text[i] {
	case '"', '\'':
		return stringEnd(text, i)
	case '[', '{':
		return nestedEnd(text, i)
	}
	end := i
	for end < len(text) && !bytes.ContainsRune([]byte(",]}#\r\n"), rune(text[end])) {
		end++
	}
	return i + len(bytes.TrimRight(text[i:end], " \t"))
}

// nestedEnd returns where a list or an inline table ends.
func nestedEnd(text []byte, i int) int {
	depth := 0
	for i < len(text) {
		switch text[i] {
		case '"', '\'':
			i = stringEnd(text, i)
			continue
		case '#':
			for i < len(text) && text[i] != '\n' {
				i++
			}
			continue
		case '[', '{':
			depth++
		case ']', '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return len(text)
}

// stringEnd returns where the string that begins at i ends.
func stringEnd(text []byte, i int) int {
	quote := text[i]
	long := bytes.Repeat([]byte{quote}, 3)
	isLong := bytes.HasPrefix(text[i:], long)
	i++
	if isLong {
		i += 2
	}
	for i < len(text) {
		switch {
		case text[i] == '\\' && quote == '"':
			i++
		case text[i] == quote && !isLong:
			return i + 1
		case isLong && bytes.HasPrefix(text[i:], long):
			for i += 3; i < len(text) && text[i] == quote; i++ { // up to two more belong to it
			}
			return i
		}
		i++
	}
	return len(text)
}
