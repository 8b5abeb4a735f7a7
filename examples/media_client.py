"""Streams a recording and a clip to the models of examples/media: docs/models/audio-video.md.

The recording is a WAV file (16 kHz, mono, 16 bits), or one made here: a second of
noise, a second of a loud tone, a second of noise. The clip is made here: three
scenes of ten frames.
"""

import argparse
import queue
import wave

import numpy as np
import tritonclient.grpc as grpc

RATE = 16_000  # samples a second
CHUNK = RATE // 10  # a tenth of a second


def made_recording():
    random = np.random.default_rng(1)
    sound = random.normal(0, 50, 3 * RATE)
    sound[RATE : 2 * RATE] += 8000 * np.sin(2 * np.pi * 220 * np.arange(RATE) / RATE)
    return sound.astype(np.int16)


def read_recording(path):
    with wave.open(path) as file:
        form = (file.getframerate(), file.getnchannels(), file.getsampwidth())
        if form != (RATE, 1, 2):
            raise SystemExit(
                f"{path}: expected 16 kHz, mono, 16 bits, found {form[0]} Hz, {form[1]} channels, {8 * form[2]} bits"
            )
        return np.frombuffer(file.readframes(file.getnframes()), "<i2")


def made_clip():
    random = np.random.default_rng(2)
    clip = np.empty((30, 72, 128, 3), np.uint8)
    for scene, colour in enumerate([(200, 40, 40), (40, 200, 40), (40, 40, 200)]):
        clip[10 * scene : 10 * scene + 10] = colour
    return clip + random.integers(0, 5, clip.shape, np.uint8)


def tensor(name, array, datatype):
    t = grpc.InferInput(name, list(array.shape), datatype)
    t.set_data_from_numpy(array)
    return t


def next_answer(answers):
    result, error = answers.get(timeout=60)
    if error is not None:
        raise SystemExit(f"the server says: {error}")
    return result


def listen(client, sound):
    """Sends chunks as a sequence on one stream, and prints where speech begins and ends."""
    answers = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    chunks = [sound[i : i + CHUNK] for i in range(0, len(sound), CHUNK)]
    for number, chunk in enumerate(chunks):  # a microphone would give them one by one
        client.async_stream_infer(
            "voice_activity",
            [tensor("SAMPLES", chunk[np.newaxis], "INT16")],
            sequence_id="recording",
            sequence_start=number == 0,
            sequence_end=number == len(chunks) - 1,
        )
    spoke = False
    for number in range(len(chunks)):
        speaks = bool(next_answer(answers).as_numpy("SPEECH").item())
        if speaks != spoke:
            print(f"{number * CHUNK / RATE:.1f} s: {'speech' if speaks else 'silence'}")
        spoke = speaks
    client.stop_stream()


def watch(client, clip):
    """Sends a clip as one request, and prints its cuts as they come."""
    answers = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    client.async_stream_infer("scene_cuts", [tensor("FRAMES", clip, "UINT8")], enable_empty_final_response=True)
    while True:
        result = next_answer(answers)
        if result.get_response().parameters["triton_final_response"].bool_param:
            break
        print(f"frame {result.as_numpy('FRAME').item()}: a cut ({result.as_numpy('CHANGE').item():.0%} changed)")
    client.stop_stream()


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--url", default="localhost:8001", help="the server's gRPC end")
    arguments.add_argument("--wav", help="a recording in place of the one made here")
    options = arguments.parse_args()
    with grpc.InferenceServerClient(options.url) as client:
        listen(client, read_recording(options.wav) if options.wav else made_recording())
        watch(client, made_clip())


if __name__ == "__main__":
    main()
