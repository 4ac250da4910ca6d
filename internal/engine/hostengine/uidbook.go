package hostengine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/id"
)

// Blocks of uids that projects get where no range was set: each project has UIDsEach numbers, of which the first
// is its own and the others are for users inside its images. They lie beyond what earlier versions gave
// (1900000000 and up, one each) and below 2^31.
const (
	UIDsEach  = record.IDsEach
	FirstAuto = 28993 * UIDsEach // 1900085248
	LastAuto  = 32766 * UIDsEach // the first number of the last block
)

// UIDBook is the book of this machine's uids: every instance of Fermi on it takes its projects' numbers from the
// one book, so that no two of them ever have the same. Safe for concurrent use, also by several processes.
type UIDBook struct {
	Dir  string // of the book, root's alone; /var/lib/fermi
	Data string // the folder of this instance, which has its mark
}

const (
	fileBook     = "uids.json"
	fileInstance = "instance"
)

// page is the book: who has which blocks, by the instance's mark, and where the next search begins. Several versions of
// Fermi may share it. What a newer one added and an older one does not know stays in it (rest); where that is not enough,
// a newer one raises Format, and an older one refuses the book.
type page struct {
	Format    int               `json:"format,omitempty"` // 0 is 1: the first had none
	Next      int               `json:"next"`
	Instances map[string]holder `json:"instances"`
	rest      others
}

// bookFormat is the newest that this version can change without harm.
const bookFormat = 1

type holder struct {
	Data   string `json:"data"`
	UIDs   []int  `json:"uids"`
	Images int    `json:"images,omitempty"` // one of UIDs: who keeps the instance's images
	// Blocks are for the users inside the images of projects whose own number has no block to itself, each one of UIDs, too.
	Blocks map[int]int `json:"blocks,omitempty"`
	rest   others
}

// others are fields of a newer version, by name.
type others map[string]json.RawMessage

func (p *page) UnmarshalJSON(data []byte) (err error) {
	var newer struct{ Format int }
	if err := json.Unmarshal(data, &newer); err == nil && newer.Format > bookFormat {
		p.Format = newer.Format // whatever else it holds
		return nil
	}
	type known page
	p.rest, err = readOthers(data, (*known)(p))
	return err
}

func (p page) MarshalJSON() ([]byte, error) {
	type known page
	return withOthers(known(p), p.rest)
}

func (h *holder) UnmarshalJSON(data []byte) (err error) {
	type known holder
	h.rest, err = readOthers(data, (*known)(h))
	return err
}

func (h holder) MarshalJSON() ([]byte, error) {
	type known holder
	return withOthers(known(h), h.rest)
}

// readOthers decodes what is known, which points to a struct, and returns the rest.
func readOthers(data []byte, known any) (others, error) {
	if err := json.Unmarshal(data, known); err != nil {
		return nil, err
	}
	var rest others
	if err := json.Unmarshal(data, &rest); err != nil {
		return nil, err
	}
	for t, i := reflect.TypeOf(known).Elem(), 0; i < t.NumField(); i++ {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		delete(rest, name)
	}
	return rest, nil
}

// withOthers encodes what is known beside the rest.
func withOthers(known any, rest others) ([]byte, error) {
	data, err := json.Marshal(known)
	if err != nil || len(rest) == 0 {
		return data, err
	}
	all := others{}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	for name, value := range rest {
		all[name] = value
	}
	return json.Marshal(all)
}

// Clash is a number that a project has here and a project of another instance on this machine, too.
type Clash struct {
	UID  int
	Data string // the other's folder
}

// Take gives the first number of a block that nobody on this machine has or had. used are the numbers that
// projects of this instance have. When it returns, that is durable. Fault Full when there is none.
func (b UIDBook) Take(used []int) (uid int, err error) {
	err = b.turn(func(p *page, mark string) error {
		b.claim(p, mark, used)
		if uid = p.free(used); uid == 0 {
			p.forgetGone(mark)
			uid = p.free(used)
		}
		if uid == 0 {
			return fault.New(fault.Full, "UIDsUsedUp", fault.T("All uids of this machine were given to projects.", "本机的 uid 已全部分配给项目。")).
				WithHint(fault.T("Set tenants.uids to a range of your own.", "请用 tenants.uids 指定范围。"))
		}
		mine := p.Instances[mark]
		mine.UIDs = append(mine.UIDs, uid)
		p.Instances[mark], p.Next = mine, uid+UIDsEach
		return nil
	})
	return uid, err
}

// Images is the number that keeps the images of this instance: no project's, always the same.
func (b UIDBook) Images(used []int) (uid int, err error) {
	err = b.turn(func(p *page, mark string) error {
		if uid = p.Instances[mark].Images; uid != 0 {
			return nil
		}
		b.claim(p, mark, used)
		if uid = p.free(used); uid == 0 {
			return fault.New(fault.Full, "UIDsUsedUp", fault.T("All uids of this machine were given to projects.", "本机的 uid 已全部分配给项目。"))
		}
		mine := p.Instances[mark]
		mine.UIDs, mine.Images = append(mine.UIDs, uid), uid
		p.Instances[mark], p.Next = mine, uid+UIDsEach
		return nil
	})
	return uid, err
}

// Block is the first number of the block that users inside a project's images have: that of its own number, where it begins one, and otherwise one
// that it keeps for ever. used are the numbers that projects of this instance have.
func (b UIDBook) Block(uid int, used []int) (first int, err error) {
	if uid%UIDsEach == 0 && uid >= FirstAuto && uid <= LastAuto {
		return uid, nil
	}
	err = b.turn(func(p *page, mark string) error {
		if first = p.Instances[mark].Blocks[uid]; first != 0 {
			return nil
		}
		b.claim(p, mark, used)
		if first = p.free(used); first == 0 {
			return fault.New(fault.Full, "UIDsUsedUp", fault.T("All uids of this machine were given to projects.", "本机的 uid 已全部分配给项目。"))
		}
		mine := p.Instances[mark]
		if mine.Blocks == nil {
			mine.Blocks = map[int]int{}
		}
		mine.Blocks[uid] = first
		mine.UIDs = append(mine.UIDs, first)
		p.Instances[mark], p.Next = mine, first+UIDsEach
		return nil
	})
	return first, err
}

// Inner gives projects the first numbers of their blocks; used are the numbers that projects of this instance have. Trouble is logged, and comes to 0: nobody
// is root inside an image then.
func (b UIDBook) Inner(log *slog.Logger, used func() ([]int, error)) func(uid int) int {
	return func(uid int) int {
		if b.Dir == "" {
			return 0
		}
		list, err := used()
		first := 0
		if err == nil {
			first, err = b.Block(uid, list)
		}
		if err != nil {
			log.Warn("a project has no numbers for users inside its images; nobody is root in there", "uid", uid, "error", err)
		}
		return first
	}
}

// Claim writes down the numbers that projects of this instance have already, and says which of them another
// instance has as well: a copy of a folder, or one that was restored beside the first.
func (b UIDBook) Claim(used []int) (clashes []Clash, err error) {
	err = b.turn(func(p *page, mark string) error {
		clashes = b.claim(p, mark, used)
		return nil
	})
	return clashes, err
}

func (b UIDBook) claim(p *page, mark string, used []int) (clashes []Clash) {
	mine := p.Instances[mark]
	if mine.Data != "" && mine.Data != b.Data && stands(mine.Data, mark) { // the folder was copied: two have one mark
		for _, uid := range used {
			clashes = append(clashes, Clash{uid, mine.Data})
		}
	}
	mine.Data = b.Data
	for _, uid := range used {
		for other, h := range p.Instances {
			if other != mark && slices.Contains(h.UIDs, uid) && stands(h.Data, other) {
				clashes = append(clashes, Clash{uid, h.Data})
			}
		}
		if !slices.Contains(mine.UIDs, uid) {
			mine.UIDs = append(mine.UIDs, uid)
		}
	}
	slices.Sort(mine.UIDs)
	p.Instances[mark] = mine
	return clashes
}

// free is the first number from Next on, around the end, that nobody has; 0 when there is none.
func (p *page) free(used []int) int {
	taken := map[int]bool{}
	for _, h := range p.Instances {
		for _, uid := range h.UIDs {
			taken[uid/UIDsEach] = true
		}
	}
	for _, uid := range used {
		taken[uid/UIDsEach] = true
	}
	if p.Next < FirstAuto || p.Next > LastAuto {
		p.Next = FirstAuto
	}
	for uid := p.Next; ; {
		if !taken[uid/UIDsEach] {
			return uid
		}
		if uid += UIDsEach; uid > LastAuto {
			uid = FirstAuto
		}
		if uid == p.Next {
			return 0
		}
	}
}

// forgetGone takes the numbers back of instances whose folder is not there any more. Only when all are used up:
// files of theirs may be anywhere.
func (p *page) forgetGone(mark string) {
	for other, h := range p.Instances {
		if other != mark && !stands(h.Data, other) {
			delete(p.Instances, other)
		}
	}
}

// stands says whether the folder of an instance is still that instance's.
func stands(data, mark string) bool {
	got, err := readMark(data)
	return err == nil && got == mark || err != nil && !errors.Is(err, fs.ErrNotExist)
}

func readMark(data string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(data, "engine", fileInstance))
	if len(raw) > 64 {
		return "", fmt.Errorf("%s is no mark of an instance", fileInstance)
	}
	return string(raw), err
}

// mark is this instance's, made once.
func (b UIDBook) mark() (string, error) {
	if got, err := readMark(b.Data); err == nil && got != "" {
		return got, nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	dir := filepath.Join(b.Data, "engine")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	made := id.Default.Random(20)
	tmp := filepath.Join(dir, "."+fileInstance+"-"+made)
	if err := os.WriteFile(tmp, []byte(made), 0o600); err != nil {
		return "", err
	}
	defer os.Remove(tmp)
	// Two servers of one folder: who links first has made it.
	if err := os.Link(tmp, filepath.Join(dir, fileInstance)); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return readMark(b.Data)
}

// turn changes the book while nobody else does.
func (b UIDBook) turn(change func(p *page, mark string) error) error {
	refused := func(err error) error {
		return fault.New(fault.Unavailable, "UIDNotWritten", fault.T(
			"The project's uid could not be written down in %s.", "无法在 %s 中记录项目的 uid。", b.Dir)).
			WithHint(fault.T("Make the folder writable for root, or set tenants.uids to a range of your own.", "请确保 root 可写该目录，或用 tenants.uids 指定范围。")).Because(err)
	}
	mark, err := b.mark()
	if err != nil {
		return refused(err)
	}
	if err := os.MkdirAll(b.Dir, 0o700); err != nil {
		return refused(err)
	}
	lock, err := os.OpenFile(filepath.Join(b.Dir, fileBook+".lock"), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return refused(err)
	}
	defer lock.Close()
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		return refused(err)
	}
	// A new book begins anywhere: containers of one machine may have a book each, and one kernel.
	p := page{Next: FirstAuto + rand.IntN(LastAuto/UIDsEach-FirstAuto/UIDsEach+1)*UIDsEach}
	if _, err := record.Read(b.Dir, fileBook, &p); err != nil {
		return refused(err) // garbled: better none than one that is somebody's
	}
	if p.Format > bookFormat {
		return fault.New(fault.Conflict, "UIDBookIsNewer", fault.T(
			"%s was written by a newer version of Fermi on this machine (format %d; this version knows %d).", "%s 由本机上更新版本的 Fermi 写入（格式 %d，当前版本支持到 %d）。",
			filepath.Join(b.Dir, fileBook), p.Format, bookFormat)).
			WithHint(fault.T("Update this instance, or give it a book or a range of its own (tenants.book, tenants.uids).", "请升级此实例，或为其单独指定 tenants.book 或 tenants.uids。"))
	}
	if p.Instances == nil {
		p.Instances = map[string]holder{}
	}
	if err := change(&p, mark); err != nil {
		return err
	}
	if err := record.Write(b.Dir, fileBook, p); err != nil {
		return refused(err)
	}
	return nil
}
