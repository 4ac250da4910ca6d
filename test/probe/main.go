package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(3)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return errors.New("probe pull IMAGE... | probe store BUCKET")
	}
	switch args[0] {
	case "pull":
		for _, image := range args[1:] {
			if err := pull(ctx, image); err != nil {
				return err
			}
		}
		return nil
	case "store":
		return store(ctx, args[1])
	}
	return fmt.Errorf("unknown verb %q", args[0])
}

func pull(ctx context.Context, image string) error {
	ref, err := name.ParseReference(image)
	if err != nil {
		return err
	}
	got, err := remote.Get(ref, remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithContext(ctx))
	if err != nil {
		return err
	}
	fmt.Println("pulled", got.Digest)
	return nil
}

func store(ctx context.Context, bucket string) error {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}
	client := s3.NewFromConfig(cfg, func(o *s3.Options) { o.UsePathStyle = true })
	if _, err := client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &bucket}); err != nil {
		return err
	}
	key := "weights"
	if _, err := client.PutObject(ctx, &s3.PutObjectInput{Bucket: &bucket, Key: &key, Body: strings.NewReader("stored by a task")}); err != nil {
		return err
	}
	got, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: &key})
	if err != nil {
		return err
	}
	defer got.Body.Close()
	data, err := io.ReadAll(got.Body)
	fmt.Printf("read back: %s\n", data)
	return err
}
