"""A program that makes its own load. It stands where a server stands."""

import measure


class Runner(measure.Runner):
    """check starts the program; it ends with its standard input."""

    process = None

    @property
    def server(self):
        return self

    def alive(self):
        return self.process is None or self.process.poll() is None

    def restart_if_dead(self):
        return False

    def stop(self):
        if self.process:
            self.process.stdin.close()
            self.process.wait(60)
