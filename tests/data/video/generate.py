#!/usr/bin/env python3
"""Writes clip.mp4 and its frames as FFmpeg decodes them: pip install av==18.1.0 numpy safetensors, then run."""

import av
import numpy as np
from safetensors.numpy import save_file

WIDTH, HEIGHT, FRAMES, FPS = 48, 32, 10, 5

def picture(i: int) -> np.ndarray:
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    frame = np.stack([x * 5 % 256, y * 7 % 256, (x + y) * 3 % 256], -1).astype(np.uint8)
    frame[8:20, 4 * i : 4 * i + 10] = [230, 40 + 20 * i, 30]  # a box that moves
    return frame

with av.open("clip.mp4", "w") as out:
    stream = out.add_stream("libx264", rate=FPS)
    stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
    stream.options = {"crf": "18", "preset": "slow", "bf": "2", "g": "6", "threads": "1"}
    for i in range(FRAMES):
        out.mux(stream.encode(av.VideoFrame.from_ndarray(picture(i), format="rgb24")))
    out.mux(stream.encode())

with av.open("clip.mp4") as read:
    decoded = list(read.decode(video=0))
    print(read.streams.video[0].codec_context.profile, [str(f.pict_type) for f in decoded])
assert len(decoded) == FRAMES
# I420: the decoder's own output, no colour conversion in between.
yuv = np.stack([f.to_ndarray(format="yuv420p") for f in decoded])
save_file({"yuv": yuv}, "clip.safetensors")
