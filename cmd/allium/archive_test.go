package main

import (
	"archive/zip"
	"io"
	"io/fs"
	"mime/multipart"
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// cmdPack is "pack zip OUT DIR", which makes a zip of what is below a directory, and "pack form OUT DIR
// [NAME=VALUE…]", which makes a form with its files behind fields. The boundary of a form is "pack".
func cmdPack(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: pack zip|form OUT DIR [NAME=VALUE…]")
	}
	out, err := os.Create(ts.MkAbs(args[1]))
	ts.Check(err)
	defer out.Close()
	dir := ts.MkAbs(args[2])
	if args[0] == "zip" {
		ts.Check(packZip(out, dir))
		return
	}
	ts.Check(packForm(out, dir, args[3:]))
}

func packZip(out io.Writer, dir string) error {
	z := zip.NewWriter(out)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		h, err := zip.FileInfoHeader(info)
		if err != nil {
			return err
		}
		if h.Name, err = filepath.Rel(dir, path); err != nil {
			return err
		}
		if d.IsDir() {
			h.Name += "/"
		}
		w, err := z.CreateHeader(h)
		if err != nil || d.IsDir() {
			return err
		}
		if d.Type()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			_, err = io.WriteString(w, target)
			return err
		}
		return copyFile(w, path)
	})
	if err != nil {
		return err
	}
	return z.Close()
}

func packForm(out io.Writer, dir string, fields []string) error {
	f := multipart.NewWriter(out)
	if err := f.SetBoundary("pack"); err != nil {
		return err
	}
	for _, field := range fields {
		name, value, _ := strings.Cut(field, "=")
		if err := f.WriteField(name, value); err != nil {
			return err
		}
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		w, err := f.CreateFormFile("files", name)
		if err != nil {
			return err
		}
		return copyFile(w, path)
	})
	if err != nil {
		return err
	}
	return f.Close()
}

func copyFile(w io.Writer, path string) error {
	r, err := os.Open(path)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(w, r)
	return err
}
