package asset

import (
	"io/fs"
	"slices"
	"strconv"
)

// Walk lists the files of a folder in order, with what names this state of each: the time when it was written. skipped are paths that are no
// files: links, sockets.
func Walk(dir fs.FS) (files []File, skipped []string, err error) {
	err = fs.WalkDir(dir, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return nil
		case !d.Type().IsRegular():
			skipped = append(skipped, p)
			return nil
		}
		if err := CheckPath(p); err != nil {
			return err
		}
		if len(files) == MaxFiles {
			return bad("it must have 1 to %d files, and at most %d chunks", "应有 1 到 %d 个文件，最多 %d 个数据块", MaxFiles, MaxChunks)
		}
		info, err := d.Info()
		if err == nil {
			files = append(files, File{Path: p, Size: info.Size(), Exec: info.Mode()&0o100 != 0, Tag: strconv.FormatInt(info.ModTime().UnixNano(), 10)})
		}
		return err
	})
	slices.SortFunc(files, func(a, b File) int { return Compare(a.Path, b.Path) })
	return files, skipped, err
}

// Untagged are the same files without what names their state: as a version that is kept has them.
func Untagged(files []File) []File {
	out := slices.Clone(files)
	for i := range out {
		out[i].Tag = ""
	}
	return out
}

// Change is what became of a file of a listing.
type Change struct {
	Path      string
	Was, Size int64 // -1: it was not there, or is not any more
}

// Changes compares a listing with what is there now, both in order; at most most are named, n is how many there are.
func Changes(listed, now []File, most int) (some []Change, n int) {
	tell := func(path string, was, size int64) {
		if n++; len(some) < most {
			some = append(some, Change{path, was, size})
		}
	}
	for len(listed) > 0 || len(now) > 0 {
		switch {
		case len(now) == 0 || len(listed) > 0 && Compare(listed[0].Path, now[0].Path) < 0:
			tell(listed[0].Path, listed[0].Size, -1)
			listed = listed[1:]
		case len(listed) == 0 || Compare(now[0].Path, listed[0].Path) < 0:
			tell(now[0].Path, -1, now[0].Size)
			now = now[1:]
		default:
			if listed[0].Size != now[0].Size || listed[0].Tag != now[0].Tag {
				tell(now[0].Path, listed[0].Size, now[0].Size)
			}
			listed, now = listed[1:], now[1:]
		}
	}
	return some, n
}
