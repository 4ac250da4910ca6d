package sim

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// maxLine bounds one row of a trace, maxRows a trace.
const (
	maxRows    = 5_000_000
	maxDevices = 100_000
)

func badTrace(line int, what string, args ...any) error {
	said := fmt.Sprintf(what, args...)
	return fault.New(fault.Invalid, "BadTrace", fault.T("Line %d of the trace: %s.", "轨迹第 %d 行有误：%s。", line, said))
}

// table reads a CSV with a header strictly: each row is handed over by column name.
func table(r io.Reader, need []string, row func(line int, get func(string) string) error) error {
	in := csv.NewReader(r)
	in.ReuseRecord = true
	head, err := in.Read()
	if err != nil {
		return badTrace(1, "no header")
	}
	at := map[string]int{}
	for i, name := range head {
		at[name] = i
	}
	for _, name := range need {
		if _, ok := at[name]; !ok {
			return badTrace(1, "no column %q; needed: %v", name, need)
		}
	}
	for line := 2; ; line++ {
		rec, err := in.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil || line > maxRows {
			return badTrace(line, "not a row of the table, or one too many")
		}
		get := func(name string) string {
			if i, ok := at[name]; ok && i < len(rec) {
				return rec[i]
			}
			return ""
		}
		if err := row(line, get); err != nil {
			return err
		}
	}
}

func count(line int, name, text string, max int64) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > max {
		return 0, badTrace(line, "%s is %.40q; a whole number from 0 to %d is needed", name, text, max)
	}
	return n, nil
}

// ReadChronus reads the Chronus-Philly format: minutes, whole devices, the virtual cluster as user.
// Rows without a device are left out, as its authors do. byUser gives each user a queue.
func ReadChronus(r io.Reader, byUser bool) (Trace, error) {
	var jobs []Job
	err := table(r, []string{"job_id", "user", "num_gpu", "submit_time", "model_name", "duration"}, func(line int, get func(string) string) error {
		devices, err := count(line, "num_gpu", get("num_gpu"), maxDevices)
		if err != nil || devices == 0 {
			return err
		}
		submit, err := count(line, "submit_time", get("submit_time"), 1<<30)
		if err != nil {
			return err
		}
		length, err := count(line, "duration", get("duration"), 1<<30)
		if err != nil {
			return err
		}
		queue := "default"
		if byUser {
			queue = get("user")
		}
		task := newTask(0, get("model_name"), get("user"), queue, wholeDevices(int(devices)))
		jobs = append(jobs, Job{Task: task, At: time.Duration(submit) * time.Minute, Length: time.Duration(length) * time.Minute})
		return nil
	})
	if err != nil {
		return Trace{}, err
	}
	return Trace{Name: "chronus", Jobs: arrange(jobs)}, nil
}

// wholeDevices is a gang of n devices: whole nodes of eight where that goes, else as few equal
// replicas as divide it.
func wholeDevices(n int) api.Role {
	replicas := (n + 7) / 8
	for n%replicas != 0 {
		replicas++
	}
	each := n / replicas
	return api.Role{Name: "worker", Replicas: replicas, Resources: api.Resources{
		CPU: api.MilliCPU(each) * 4000, Memory: api.Bytes(each) << 34, Accelerators: api.Accelerators{Count: each},
	}}
}

// arrange sorts by arrival and numbers the tasks in that order.
func arrange(jobs []Job) []Job {
	slices.SortStableFunc(jobs, func(a, b Job) int { return int(min(max(a.At-b.At, -1), 1)) })
	for i := range jobs {
		if jobs[i].Task.Meta.DisplayName == "" {
			jobs[i].Task.Meta.DisplayName = jobs[i].Task.Meta.Name // what its repetitions share
		}
		jobs[i].Task.Meta.ID = fmt.Sprintf("task-%09d", i)
		jobs[i].Task.Meta.Name = fmt.Sprintf("%.40s-%d", jobs[i].Task.Meta.Name, i)
	}
	return jobs
}
