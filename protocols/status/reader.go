package status

import "io"

// Reader returns a reader of r whose errors, other than io.EOF, are what explain makes of them. So a format such as
// tar or zip gives the error of a read an outcome and says what to do.
func Reader(r io.Reader, explain func(error) error) io.Reader { return reader{r, explain} }

type reader struct {
	r       io.Reader
	explain func(error) error
}

func (r reader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // an error that wraps io.EOF is no regular end
		err = r.explain(err)
	}
	return n, err
}
