// Command probe is what the pods of the smoke test run: each of its verbs is one thing that a cluster must allow, or prevent.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"
)

const usage = `usage: probe exit STATUS | sleep SECONDS | serve ADDRESS TEXT | get URL | write FILE TEXT | refuse-write FILE | memory MIB`

// A get is repeated for so long: the rules of a Service follow its pods by a moment.
const patience = 20 * time.Second

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	verb, args := argument(args)
	first, args := argument(args)
	second, _ := argument(args)
	switch verb {
	case "exit":
		os.Exit(number(first))
	case "sleep":
		time.Sleep(time.Duration(number(first)) * time.Second)
	case "serve":
		return serve(first, second)
	case "get":
		return get(first)
	case "write":
		return os.WriteFile(first, []byte(second+"\n"), 0o644)
	case "refuse-write":
		return refuseWrite(first)
	case "memory":
		return fill(number(first))
	default:
		return fmt.Errorf("unknown verb %q\n%s", verb, usage)
	}
	return nil
}

// argument takes the first of what is left, or nothing.
func argument(args []string) (string, []string) {
	if len(args) == 0 {
		return "", nil
	}
	return args[0], args[1:]
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		fmt.Fprintf(os.Stderr, "probe: %q is no number\n%s\n", text, usage)
		os.Exit(2)
	}
	return n
}

func serve(address, text string) error {
	return http.ListenAndServe(address, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, text)
	}))
}

func get(url string) error {
	client := http.Client{Timeout: 2 * time.Second}
	deadline := time.Now().Add(patience)
	for {
		response, err := client.Get(url)
		if err == nil {
			defer response.Body.Close()
			_, err = io.Copy(os.Stdout, io.LimitReader(response.Body, 1<<20))
			return err
		}
		if time.Now().After(deadline) {
			return err
		}
		fmt.Fprintln(os.Stderr, "probe: not yet:", err)
		time.Sleep(200 * time.Millisecond)
	}
}

// refuseWrite succeeds where a write fails: so a pod shows that its root is read-only.
func refuseWrite(file string) error {
	if err := os.WriteFile(file, nil, 0o644); err == nil {
		return fmt.Errorf("%s could be written", file)
	}
	return nil
}

// fill touches every page, because memory that nobody touched counts against no limit.
func fill(mib int) error {
	memory := make([]byte, mib<<20)
	for i := 0; i < len(memory); i += os.Getpagesize() {
		memory[i] = 1
	}
	fmt.Printf("%d MiB are in use\n", len(memory)>>20)
	return nil
}
