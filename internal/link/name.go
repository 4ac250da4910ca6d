package link

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link/message"
)

// Parts are what a replica's name is made of.
type Parts struct {
	TaskID  string
	Role    string
	Index   int
	Attempt int
}

// ParseName takes a name apart. A task's id is "<prefix>-<random>" without further dashes, the last
// two segments are numbers, so that every accepted name has exactly one reading; a token for a
// name therefore reaches exactly one task.
func ParseName(name engine.Name) (Parts, error) {
	bad := fault.New(fault.Invalid, "BadReplicaName",
		fault.T("The replica name is not of the form task-role-index-attempt.", "副本名不符合“任务-角色-序号-次数”的格式。"))
	s := string(name)
	if len(s) > message.MaxName {
		return Parts{}, bad
	}
	for i := range len(s) {
		if c := s[i]; c != '-' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return Parts{}, bad
		}
	}
	seg := strings.Split(s, "-")
	n := len(seg)
	if n < 5 || seg[0] == "" || seg[1] == "" || seg[2] == "" || seg[n-3] == "" {
		return Parts{}, bad
	}
	index, err1 := number(seg[n-2])
	attempt, err2 := number(seg[n-1])
	if err1 != nil || err2 != nil {
		return Parts{}, bad
	}
	return Parts{
		TaskID: seg[0] + "-" + seg[1], Role: strings.Join(seg[2:n-2], "-"),
		Index: index, Attempt: attempt,
	}, nil
}

// number reads a canonical non-negative number: one spelling only.
func number(s string) (int, error) {
	v, err := strconv.ParseInt(s, 10, 32)
	if err != nil || v < 0 || strconv.FormatInt(v, 10) != s {
		return 0, fmt.Errorf("%q is not a number", s)
	}
	return int(v), nil
}

// LogKey is the replica's name within its task's log: the whole name, because every attempt has a
// log of its own.
func (p Parts) LogKey() string { return string(engine.NameOf(p.TaskID, p.Role, p.Index, p.Attempt)) }

// OutputKey is the folder of the replica's outputs within its task's: role and index, because a
// later attempt replaces what an earlier one left.
func (p Parts) OutputKey() string { return fmt.Sprintf("%s-%d", p.Role, p.Index) }

// OutputPrefix is where the replica's outputs lie in the blob store.
func (p Parts) OutputPrefix() string { return "outputs/" + p.TaskID + "/" + p.OutputKey() + "/" }
