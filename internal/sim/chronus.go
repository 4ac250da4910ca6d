package sim

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
)

const maxDevices = 100_000

// ReadChronus reads the Chronus-Philly format: minutes, whole devices, the virtual cluster as user;
// the first deadline, where there is one, counts from the submit. Rows without a device are left
// out, as its authors do. byUser gives each user a queue.
func ReadChronus(r io.Reader, byUser bool) (Trace, error) {
	var jobs []Job
	err := Table(r, []string{"job_id", "user", "num_gpu", "submit_time", "model_name", "duration"}, func(row Row) error {
		devices := row.Count("num_gpu", maxDevices)
		minutes := func(column string) time.Duration { return time.Duration(row.Count(column, 1<<30)) * time.Minute }
		if devices == 0 {
			return row.Err()
		}
		queue := "default"
		if byUser {
			queue = row.Text("user")
		}
		task := newTask(0, row.Text("model_name"), row.Text("user"), queue, wholeDevices(int(devices)))
		j := Job{Task: task, At: minutes("submit_time"), Length: minutes("duration")}
		if first, _, _ := strings.Cut(row.Text("expect_time_list"), "-"); first != "" {
			due, err := strconv.Atoi(first)
			if err != nil || due < 0 || due > 1<<30 {
				return row.bad("expect_time_list is %.40q", row.Text("expect_time_list"))
			}
			j.Due = j.At + time.Duration(due)*time.Minute
		}
		jobs = append(jobs, j)
		return row.Err()
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
