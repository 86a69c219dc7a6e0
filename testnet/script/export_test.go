package script

import "strings"

// String returns the file in its canonical form, without comments.
func (f *File) String() string {
	var b strings.Builder
	b.WriteString(f.Head())
	for _, s := range f.Steps {
		b.WriteString(s.String() + "\n")
	}
	return b.String()
}
