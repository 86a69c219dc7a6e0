package web

import (
	"archive/tar"
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"allium/bench/bed"
	"allium/bench/measure"
)

// archived is a directory as one file, as clients send it.
type archived struct{ path, mediaType string }

// Upload measures a directory of small files that is sent to a fresh node by POST /b3, as each kind of archive,
// against "add" of the same directory to another fresh node that runs.
func Upload(ctx context.Context, s *bed.Settings) ([]measure.Row, error) {
	dir := filepath.Join(s.Dir, "uploaded")
	if err := bed.SmallFiles(dir, s.Files); err != nil {
		return nil, err
	}
	rows := []measure.Row{
		{What: fmt.Sprintf("%d files: add to a node that runs", s.Files), Unit: "files/s"},
		{What: "add: peak RSS of the node", Unit: "MB"},
	}
	kinds := []struct {
		name string
		make func(dir, to string) (archived, error)
	}{{"tar", tarOf}, {"zip", zipOf}, {"form", formOf}}
	for _, k := range kinds {
		rows = append(rows, measure.Row{What: "POST /b3 of a " + k.name + " ÷ add", Unit: "×", Target: "≥ 0.7"},
			measure.Row{What: "POST /b3 of a " + k.name + ": peak RSS of the node", Unit: "MB"})
	}
	for range s.Rounds {
		ref, root, rss, err := timedUpload(ctx, s, func(node *measure.Process, home, _ string) (string, error) {
			out, err := s.Run(ctx, home, "add", "-q", dir)
			return out.Out, err
		})
		if err != nil {
			return nil, err
		}
		rows[0].Values = append(rows[0].Values, float64(s.Files)/ref.Seconds())
		rows[1].Values = append(rows[1].Values, bed.MB(rss))
		for i, k := range kinds {
			a, err := k.make(dir, filepath.Join(s.Dir, "uploaded."+k.name))
			if err != nil {
				return nil, err
			}
			took, answer, rss, err := timedUpload(ctx, s, func(node *measure.Process, _, token string) (string, error) {
				return a.post(ctx, node.Gate+"/b3", token)
			})
			if err := errors.Join(err, os.Remove(a.path)); err != nil {
				return nil, err
			}
			if !strings.Contains(answer, strings.TrimSpace(root)) {
				return nil, fmt.Errorf("POST /b3 of a %s answered %q, and add printed %q", k.name, answer, root)
			}
			rows[2+2*i].Values = append(rows[2+2*i].Values, ref.Seconds()/took.Seconds())
			rows[3+2*i].Values = append(rows[3+2*i].Values, bed.MB(rss))
		}
	}
	return rows, os.RemoveAll(dir)
}

// timedUpload starts a node with an empty store and returns how long upload took, what it returned, and the peak
// memory of the node in bytes.
func timedUpload(
	ctx context.Context, s *bed.Settings, upload func(node *measure.Process, home, token string) (string, error),
) (
	took time.Duration, answer string, rss int64, err error,
) {
	home := filepath.Join(s.Dir, "uploads")
	defer func() { err = errors.Join(err, os.RemoveAll(home)) }()
	if err := bed.Unlimited(home); err != nil {
		return 0, "", 0, err
	}
	token, err := s.Mint(ctx, home, "put,pin")
	if err != nil {
		return 0, "", 0, err
	}
	node, err := s.StartNode(ctx, home)
	if err != nil {
		return 0, "", 0, err
	}
	begun := time.Now()
	answer, err = upload(node, home, token)
	took = time.Since(begun)
	rss, stopErr := node.Stop()
	return took, answer, rss, errors.Join(err, stopErr)
}

// post sends the archive and returns the body of the answer.
func (a archived) post(ctx context.Context, url, token string) (string, error) {
	f, err := os.Open(a.path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, f)
	if err != nil {
		return "", err
	}
	st, err := f.Stat()
	if err != nil {
		return "", err
	}
	req.ContentLength = st.Size()
	req.Header.Set("Content-Type", a.mediaType)
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil && resp.StatusCode != http.StatusCreated {
		err = fmt.Errorf("%s: %s: %s", url, resp.Status, body)
	}
	return string(body), err
}

func tarOf(dir, to string) (archived, error) {
	return archived{to, "application/x-tar"}, writeArchive(to, func(out io.Writer) error {
		w := tar.NewWriter(out)
		return errors.Join(w.AddFS(os.DirFS(dir)), w.Close())
	})
}

func zipOf(dir, to string) (archived, error) {
	return archived{to, "application/zip"}, writeArchive(to, func(out io.Writer) error {
		w := zip.NewWriter(out)
		return errors.Join(w.AddFS(os.DirFS(dir)), w.Close())
	})
}

func formOf(dir, to string) (archived, error) {
	a := archived{path: to}
	err := writeArchive(to, func(out io.Writer) error {
		w := multipart.NewWriter(out)
		a.mediaType = w.FormDataContentType()
		err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			name, err := filepath.Rel(dir, path)
			if err != nil {
				return err
			}
			part, err := w.CreateFormFile("file", filepath.ToSlash(name))
			if err != nil {
				return err
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			_, err = part.Write(content)
			return err
		})
		return errors.Join(err, w.Close())
	})
	return a, err
}

func writeArchive(to string, write func(io.Writer) error) error {
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
