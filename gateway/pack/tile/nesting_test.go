package tile

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"allium/protocols/status"
)

// TestLimitNesting: what is too deep is refused, and brackets in texts do not count.
func TestLimitNesting(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", MaxNesting)
	for text, want := range map[string]status.Outcome{
		deep: status.OK, deep + "[": status.BodyCap, strings.Repeat(`{"a":`, MaxNesting+1): status.BodyCap,
		deep + `"[[{"`: status.OK, deep + `"\"[["`: status.OK, deep + `"\\"[`: status.BodyCap, deep + "][": status.OK,
		deep + "]][[{": status.BodyCap, `{"a":[1,2,{"b":"]"}]}`: status.OK,
	} {
		for _, r := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text))} {
			r = LimitNesting(r)
			got, err := io.ReadAll(r)
			whole := string(got) == text
			if status.Of(err) != want || want == status.OK && !whole || !strings.HasPrefix(text, string(got)) {
				t.Errorf("%q: %q, %v", text, got, err)
			}
			if n, again := r.Read(make([]byte, 9)); n > 0 || err != nil && !errors.Is(again, err) {
				t.Errorf("%q: then %d bytes, %v", text, n, again)
			}
		}
	}
}
