package bucket

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/mount"
)

// TestListGrowsLinearly: a prefix is listed by one request for each thousand objects, and nothing is asked of each.
func TestListGrowsLinearly(t *testing.T) {
	for _, objects := range []int{10_000, 100_000} {
		var asked atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			q := r.URL.Query()
			if r.Method != http.MethodGet || q.Get("list-type") != "2" || q.Get("prefix") != "faces/" {
				t.Errorf("%s %s", r.Method, r.URL)
			}
			from, _ := strconv.Atoi(q.Get("continuation-token"))
			most, err := strconv.Atoi(q.Get("max-keys"))
			if err != nil {
				t.Error(err)
			}
			to := min(from+most, objects)
			var page strings.Builder
			fmt.Fprintf(&page, "<ListBucketResult><IsTruncated>%v</IsTruncated><NextContinuationToken>%d</NextContinuationToken>", to < objects, to)
			for i := from; i < to; i++ {
				fmt.Fprintf(&page, `<Contents><Key>faces/%02d/%05d</Key><Size>10000</Size><ETag>"%x"</ETag></Contents>`, i%100, i/100, i)
			}
			page.WriteString("</ListBucketResult>")
			_, _ = w.Write([]byte(page.String()))
		}))
		defer server.Close()
		b := Open(mount.S3Source{Endpoint: server.URL, Bucket: "photos", Prefix: "faces"}, api.S3Credential{AccessKeyID: "id", SecretAccessKey: "secret"})
		files, skipped, err := b.List(t.Context())
		if err != nil || len(files) != objects || len(skipped) > 0 {
			t.Fatalf("%d of %d objects, %d skipped, %v", len(files), objects, len(skipped), err)
		}
		if files[0].Path != "00/00000" || files[1].Path != "00/00001" || files[0].Size != 10_000 || files[0].Tag != "0" {
			t.Errorf("%+v", files[:2])
		}
		if n := asked.Load(); n != int64(objects/pageKeys) {
			t.Errorf("%d requests for %d objects", n, objects)
		}
	}
}
