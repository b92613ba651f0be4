package main

import (
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/mcptask/mcptask/examples/crawl/crawler"
	"github.com/mcptask/mcptask/examples/crawl/robots"
	"github.com/mcptask/mcptask/examples/crawl/urlnorm"
)

const usage = `crawl --url=URL [flags]

  --url          the first page; the crawl stays on its scheme, host and port
  --depth        the largest link distance from the first page, 0 to 20 (default 3)
  --max-pages    how many URLs are fetched at most, 1 to 100000 (default 1000)
  --timeout      for each request, 1ms to 10m (default 10s)
  --delay        the least time between two requests, up to 1m (default 0: the Crawl-delay
                 of robots.txt, at most 10s)
  --concurrency  how many requests at once, 1 to 64 (default 8)
  --user-agent   sent with each request; robots.txt is read for its first word
                 (default ` + defaultUserAgent + `)

An empty value means the default.
`

const defaultUserAgent = "mcptask-crawl/1.0 (+https://github.com/mcptask/mcptask)"

// parseFlags reads the command line. Its errors name the flag.
func parseFlags(args []string) (crawler.Config, error) {
	flags := flag.NewFlagSet("crawl", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	var (
		rawURL      = flags.String("url", "", "")
		depth       = flags.String("depth", "", "")
		maxPages    = flags.String("max-pages", "", "")
		timeout     = flags.String("timeout", "", "")
		delay       = flags.String("delay", "", "")
		concurrency = flags.String("concurrency", "", "")
		userAgent   = flags.String("user-agent", "", "")
	)
	if err := flags.Parse(args); err != nil {
		return crawler.Config{}, err
	}
	if flags.NArg() > 0 {
		return crawler.Config{}, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}

	var cfg crawler.Config
	var err error
	if *rawURL == "" {
		return cfg, fmt.Errorf("--url is required")
	}
	if cfg.Start, err = urlnorm.ParseStart(*rawURL); err != nil {
		return cfg, fmt.Errorf("--url: %w", err)
	}
	if cfg.Depth, err = whole("depth", *depth, 3, 0, 20); err != nil {
		return cfg, err
	}
	if cfg.MaxPages, err = whole("max-pages", *maxPages, 1000, 1, 100000); err != nil {
		return cfg, err
	}
	if cfg.Timeout, err = duration("timeout", *timeout, 10*time.Second, time.Millisecond, 10*time.Minute); err != nil {
		return cfg, err
	}
	if cfg.Delay, err = duration("delay", *delay, 0, 0, time.Minute); err != nil {
		return cfg, err
	}
	if cfg.Concurrency, err = whole("concurrency", *concurrency, 8, 1, 64); err != nil {
		return cfg, err
	}
	cfg.UserAgent, err = agent(*userAgent)
	return cfg, err
}

func whole(name, value string, otherwise, least, most int) (int, error) {
	if value == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("--%s: must be a whole number from %d to %d, not %q", name, least, most, value)
	}
	return n, nil
}

func duration(name, value string, otherwise, least, most time.Duration) (time.Duration, error) {
	if value == "" {
		return otherwise, nil
	}
	d, err := time.ParseDuration(value)
	if err != nil || d < least || d > most {
		return 0, fmt.Errorf("--%s: must be a duration from %v to %v such as 1.5s, not %q", name, least, most, value)
	}
	return d, nil
}

func agent(value string) (string, error) {
	if value == "" {
		return defaultUserAgent, nil
	}
	if robots.ProductToken(value) == "" || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "", fmt.Errorf("--user-agent: must be ASCII and begin with a name of letters, - and _, not %q", value)
	}
	return value, nil
}
