package mediatype

import (
	"bytes"
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"allium/internal/lazyregexp"
	"allium/protocols/b3"
)

// SniffLen is the number of first bytes of an object that decide about its charset. They are proved together.
const SniffLen = b3.GroupSize

// pageCharsetLen is the number of first bytes of a web page that may name its charset (HTML, "encoding sniffing
// algorithm").
const pageCharsetLen = 1024

// DeclaredUTF8 is the end of the content types that declare text to be UTF-8.
const DeclaredUTF8 = "; charset=utf-8"

// Charset tells what an object's first bytes say about their encoding. A declaration in the header wins over that of a
// page, so a wrong one makes the page unreadable.
type Charset struct {
	other  bool // the bytes are not UTF-8
	page   bool // as a web page they name another encoding
	styles bool // as a style sheet they do
}

// CharsetOf returns the charset of an object's first bytes. cut means that the object has more.
func CharsetOf(first []byte, cut bool) Charset {
	whole := first
	if cut {
		whole = first[:WholeRunes(first)]
	}
	c := Charset{other: !utf8.Valid(whole)}
	if bytes.HasPrefix(first, []byte(utf8Mark)) {
		return c // the mark wins over all names
	}
	if i := bytes.IndexByte(first, '<'); 0 <= i && i < pageCharsetLen {
		c.page = namesOther(pageCharset(first[:min(len(first), pageCharsetLen)]))
	}
	if rest, ok := bytes.CutPrefix(first[:min(len(first), pageCharsetLen)], []byte(`@charset "`)); ok {
		name, _, _ := bytes.Cut(rest, []byte(`"`))
		c.styles = namesOther(string(name))
	}
	return c
}

// utf8Mark is the byte order mark in UTF-8.
const utf8Mark = "\ufeff"

// namesOther reports whether text names an encoding that is not UTF-8.
func namesOther(text string) bool {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "", "utf-8", "utf8":
		return false
	}
	return true
}

// Declare returns a content type without its charset if that does not hold for the bytes.
func (c Charset) Declare(contentType string) string {
	t, ok := strings.CutSuffix(contentType, DeclaredUTF8)
	other := c.other
	switch t {
	case "text/html":
		other = other || c.page
	case "text/css":
		other = other || c.styles
	case "text/xml":
		other = true // XML names its own
	}
	if ok && other {
		return t
	}
	return contentType
}

// pageCharset returns the encoding that the beginning of a web page names, or "".
func pageCharset(head []byte) string {
	if declaration, ok := bytes.CutPrefix(head, []byte("<?xml")); ok {
		declaration, _, _ = bytes.Cut(declaration, []byte(">"))
		if name := valueOf(encodingIn(), string(declaration)); name != "" {
			return name
		}
	}
	for z := html.NewTokenizer(bytes.NewReader(head)); ; {
		switch z.Next() {
		case html.ErrorToken:
			return ""
		case html.StartTagToken, html.SelfClosingTagToken:
			if t := z.Token(); t.DataAtom == atom.Meta {
				if name := metaCharset(t.Attr); name != "" {
					return name
				}
			}
		}
	}
}

// metaCharset returns the encoding that an element meta names, or "".
func metaCharset(attrs []html.Attribute) (name string) {
	isType := false
	for _, a := range attrs {
		switch a.Key {
		case "charset":
			return a.Val
		case "http-equiv":
			isType = strings.EqualFold(a.Val, "content-type")
		case "content":
			name = valueOf(charsetIn(), a.Val)
		}
	}
	if !isType {
		return ""
	}
	return name
}

// The encoding in an XML declaration, and the one in a content type.
var (
	encodingIn = lazyregexp.New(`\sencoding\s*=\s*("[^"]*"|'[^']*')`)
	charsetIn  = lazyregexp.New(`(?i)charset\s*=\s*("[^"]*"|'[^']*'|[^\s;"']+)`)
)

// valueOf returns what the group of a pattern matches in text, without quotes, or "".
func valueOf(pattern *regexp.Regexp, text string) string {
	if m := pattern.FindStringSubmatch(text); m != nil {
		return strings.Trim(m[1], `"'`)
	}
	return ""
}

// WholeRunes returns how many bytes of p are whole characters.
func WholeRunes(p []byte) int {
	for i := 1; i < utf8.UTFMax && i <= len(p); i++ {
		if at := len(p) - i; utf8.RuneStart(p[at]) {
			if utf8.FullRune(p[at:]) {
				return len(p)
			}
			return at
		}
	}
	return len(p)
}
